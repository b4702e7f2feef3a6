// config/result.hpp: how a function says that the world, not a bug, kept it from doing its job.
//
// result<T> holds a T or an error. The text of an error names the thing (file, key, device), says what is wrong with it and,
// where there is one, the way out. What only our own code could get wrong asserts instead (config/assert.hpp).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace ebb {

// One documented kind of failure each; the name is what clients see as the code of an error reply.
enum class errc : std::uint8_t {
  none,
  file_unreadable,           // cannot be opened, mapped or read
  file_unwritable,           // cannot be created or written
  not_gguf,                  // the magic number is missing
  unsupported_version,       // GGUF other than 2 and 3
  truncated,                 // something would end past the last byte of its file
  corrupt,                   // a count, offset, type or length contradicts the file
  missing_key,               // a key, tensor or field that is required is absent
  unsupported_architecture,  // no entry in the table of architectures
  unsupported_format,        // a tensor type without kernels
  unsupported_tokenizer,     // a vocabulary or pre-tokenizer that is not known
  bad_value,                 // a setting, field or argument has the wrong type or range
  unknown_key,               // a setting or field that does not exist
  unknown_command,           // a command that does not exist
  unknown_device,            // a device that is not in this run
  unknown_session,           // never begun, or ended
  unknown_lease,             // never given, ended or expired
  short_of,                  // a card cannot free that much; nothing has changed
  malformed,                 // bytes that are no message
  too_large,                 // a message, prompt or context over its limit
  out_of_memory,             // the system refused memory
  refused,                   // allowed by form, not by state or settings; the text says which
  not_loaded,                // no model yet, or no longer
  busy,                      // a bounded queue is full; try again
  cancelled,                 // by its client, or because its client left
  timed_out,                 // no answer within the named limit
  card_lost,                 // the device of a stage failed
  internal,                  // an exception of a library caught at a boundary
};

// The name as written above ("file_unreadable"); "unknown" for a value outside the enum.
std::string_view to_string(errc code) noexcept;

struct error {
  errc code = errc::internal;
  std::string text;  // a sentence without the code
};

template <class T>
using result = tl::expected<T, error>;

inline tl::unexpected<error> fail(errc code, std::string text) { return tl::unexpected<error>({code, std::move(text)}); }
inline tl::unexpected<error> fail(error what) { return tl::unexpected<error>(std::move(what)); }

}  // namespace ebb

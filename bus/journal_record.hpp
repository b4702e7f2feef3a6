// bus/journal_record.hpp: what a journal is made of, and its bytes (docs/JOURNAL.md).
//
//   a file = records       a record = length uint32 | sum uint32 | payload (one msgpack array of `length` bytes)
//
// Both numbers are little-endian. The sum is the CRC-32 of the length's four bytes and the payload, so that neither a length that
// was changed nor a tail of zeros passes for a record.
#pragma once
#include "bus/bytes.hpp"
#include "bus/client_id.hpp"
#include "config/result.hpp"
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace ebb::bus {

inline constexpr std::uint32_t journal_format = 1;
inline constexpr std::size_t journal_prefix_bytes = 8;  // length and sum

// The first record of every run of a daemon.
struct journal_header {
  std::string version;                       // of the ebb that wrote it
  std::chrono::nanoseconds started{0};       // wall clock, since 1970
  std::map<std::string, std::string> about;  // what matters for a replay: model, cards, settings
  friend bool operator==(const journal_header&, const journal_header&) = default;
};

// What every record but the header has.
struct journal_stamp {
  std::uint64_t sequence = 0;      // 1 after a header, and 1 more a record
  std::chrono::nanoseconds at{0};  // monotonic, since the start
  friend bool operator==(const journal_stamp&, const journal_stamp&) = default;
};

enum class journal_direction : std::uint8_t { in, out };

// A frame from a client (in) or to one (out), as it was on the wire.
struct journal_message {
  journal_stamp stamp;
  journal_direction direction = journal_direction::in;
  client_id client;
  bytes frame;
  friend bool operator==(const journal_message&, const journal_message&) = default;
};

// A client has left.
struct journal_gone {
  journal_stamp stamp;
  client_id client;
  friend bool operator==(const journal_gone&, const journal_gone&) = default;
};

// Here so many messages and departures are missing, because the disk was slower than they came.
struct journal_lost {
  journal_stamp stamp;
  std::uint64_t count = 0;
  friend bool operator==(const journal_lost&, const journal_lost&) = default;
};

using journal_record = std::variant<journal_header, journal_message, journal_gone, journal_lost>;

// The whole record, with its prefix.
bytes encode_journal_record(const journal_record& record);

struct journal_prefix {
  std::uint32_t length_bytes;
  std::uint32_t sum;
};

// Pre: there are journal_prefix_bytes.
journal_prefix decode_journal_prefix(bytes_view prefix) noexcept;
std::uint32_t journal_sum(bytes_view payload) noexcept;

// Errors: corrupt (no record of ours), unsupported_version (a header of another format).
result<journal_record> decode_journal_payload(bytes_view payload);

}  // namespace ebb::bus

// model/gguf_cursor.hpp: reads the bytes of a GGUF file front to back and never past their end.
//
// Its errors name the file, what was being read and the offset, which is all that a person with a bad download can use.
#pragma once
#include "config/result.hpp"
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace ebb::model {

static_assert(std::endian::native == std::endian::little, "GGUF files are read in place, so the machine must have their byte order");

// A T at any address: values of GGUF files are not aligned.
template <class T>
T load(const std::byte* from) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

class gguf_cursor {
 public:
  // Keeps references to both.
  gguf_cursor(std::span<const std::byte> bytes, const std::string& path) noexcept : bytes_(bytes), path_(path) {}

  std::uint64_t offset() const noexcept { return offset_; }
  std::uint64_t remaining() const noexcept { return bytes_.size() - offset_; }
  // What was read since the cursor was at `start`.
  std::span<const std::byte> since(std::uint64_t start) const noexcept { return bytes_.subspan(start, offset_ - start); }

  // The next `size_bytes` bytes. `what` says what they are, for the error truncated.
  result<std::span<const std::byte>> take(std::uint64_t size_bytes, std::string_view what);

  // The next value. Error: truncated.
  template <class T>
  result<T> read(std::string_view what) {
    return take(sizeof(T), what).map([](std::span<const std::byte> bytes) { return load<T>(bytes.data()); });
  }

  // The next string: its length in 8 bytes, then its bytes, which need not be valid text. Error: truncated.
  result<std::string_view> read_string(std::string_view what);

  // A count, and that so many things of at least `bytes_each` can still follow: so a caller may reserve memory for them.
  // Errors: truncated, corrupt (more than `count_max`).
  result<std::uint64_t> read_count(std::string_view what, std::uint64_t bytes_each, std::uint64_t count_max);

  // The error for what the caller finds wrong with what it has read. `why` completes the sentence: "is zero".
  tl::unexpected<error> corrupt(std::string_view what, std::string_view why) const;

 private:
  tl::unexpected<error> truncated(std::string_view what, const std::string& needs) const;

  std::span<const std::byte> bytes_;
  const std::string& path_;
  std::uint64_t offset_ = 0;
};

}  // namespace ebb::model

#include "model/gguf_cursor.hpp"

namespace ebb::model {
result<std::span<const std::byte>> gguf_cursor::take(std::uint64_t size_bytes, std::string_view what) {
  if (size_bytes > remaining()) return truncated(what, std::to_string(size_bytes) + " bytes");
  const auto taken = bytes_.subspan(offset_, size_bytes);
  offset_ += size_bytes;
  return taken;
}

result<std::string_view> gguf_cursor::read_string(std::string_view what) {
  const auto size_bytes = read<std::uint64_t>(what);
  if (!size_bytes) return fail(size_bytes.error());
  return take(*size_bytes, what).map([](std::span<const std::byte> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

result<std::uint64_t> gguf_cursor::read_count(std::string_view what, std::uint64_t bytes_each, std::uint64_t count_max) {
  const auto count = read<std::uint64_t>(what);
  if (!count) return count;
  if (*count > count_max) return corrupt(what, "is " + std::to_string(*count) + ", more than any model has");
  if (*count > remaining() / bytes_each) {
    return truncated(what, std::to_string(*count) + " times " + std::to_string(bytes_each) + " bytes");
  }
  return count;
}

tl::unexpected<error> gguf_cursor::corrupt(std::string_view what, std::string_view why) const {
  return fail(errc::corrupt, path_ + " is corrupt: " + std::string(what) + ", before byte " + std::to_string(offset_) + ", " +
                                 std::string(why) + "; download or convert it again.");
}

tl::unexpected<error> gguf_cursor::truncated(std::string_view what, const std::string& needs) const {
  return fail(errc::truncated, path_ + " is cut short: " + std::string(what) + " needs " + needs + " at byte " + std::to_string(offset_) +
                                   ", but " + std::to_string(remaining()) + " bytes are left; download or copy it again.");
}

}  // namespace ebb::model

#include "model/utf8.hpp"
#include "config/assert.hpp"

namespace ebb::model {
namespace {

// What a first byte promises (RFC 3629, section 4). Overlong forms, surrogates and values above U+10FFFF are all ruled out by
// the range of the second byte; every later byte is 80..BF.
struct sequence {
  std::size_t size_bytes;  // 0: no sequence begins with this byte
  std::uint8_t second_min = 0x80;
  std::uint8_t second_max = 0xBF;
};

sequence sequence_of(std::uint8_t lead) noexcept {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// The payload bits of the first byte of a sequence.
char32_t lead_bits(std::uint8_t lead, std::size_t size_bytes) noexcept {
  return size_bytes == 1 ? lead : lead & (0x7Fu >> size_bytes);
}

}  // namespace

utf8_unit first_unit(std::string_view bytes) noexcept {
  using enum utf8_unit::kind;
  EBB_DASSERT(!bytes.empty());
  const auto lead = static_cast<std::uint8_t>(bytes[0]);
  const sequence expected = sequence_of(lead);
  if (expected.size_bytes == 0) return {invalid, 1, replacement_character};

  char32_t code_point = lead_bits(lead, expected.size_bytes);
  for (std::size_t i = 1; i < expected.size_bytes; ++i) {
    if (i == bytes.size()) return {incomplete, i, replacement_character};
    const auto byte = static_cast<std::uint8_t>(bytes[i]);
    const std::uint8_t min = i == 1 ? expected.second_min : 0x80;
    const std::uint8_t max = i == 1 ? expected.second_max : 0xBF;
    if (byte < min || byte > max) return {invalid, i, replacement_character};
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  return {character, expected.size_bytes, code_point};
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto continuation = [&](int shift) { text += static_cast<char>(0x80u | (code_point >> shift & 0x3Fu)); };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0u | code_point >> 6);
    continuation(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0u | code_point >> 12);
    continuation(6);
    continuation(0);
  } else {
    text += static_cast<char>(0xF0u | code_point >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::string utf8_stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string text;
  text.reserve(pending_.size());
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const utf8_unit unit = first_unit(rest);
    if (unit.what == utf8_unit::kind::incomplete) break;
    if (unit.what == utf8_unit::kind::character) {
      text += rest.substr(0, unit.size_bytes);
    } else {
      append_utf8(text, replacement_character);
    }
    rest.remove_prefix(unit.size_bytes);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string utf8_stream::finish() {
  std::string text;
  if (!pending_.empty()) append_utf8(text, replacement_character);
  pending_.clear();
  return text;
}

}  // namespace ebb::model

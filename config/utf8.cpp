#include "config/utf8.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <cstdint>

namespace ebb {
namespace {

// What may follow a first byte: how many bytes, and between which bounds the second must lie. The bounds are where overlong
// forms (e0, f0), surrogates (ed) and what is beyond U+10FFFF (f4) are excluded.
struct lead {
  std::size_t length;  // of the character; 0: no character begins so
  std::uint8_t second_min = 0x80;
  std::uint8_t second_max = 0xbf;
};

constexpr lead lead_of(std::uint8_t first) noexcept {
  if (first < 0x80) return {1};
  if (first < 0xc2) return {0};
  if (first < 0xe0) return {2};
  if (first == 0xe0) return {3, 0xa0};
  if (first == 0xed) return {3, 0x80, 0x9f};
  if (first < 0xf0) return {3};
  if (first == 0xf0) return {4, 0x90};
  if (first < 0xf4) return {4};
  if (first == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

// The length of the character at the start of `text`, which is not empty; 0 if there is none.
std::size_t character_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
  const lead begin = lead_of(byte(0));
  if (begin.length > text.size()) return 0;
  if (begin.length >= 2 && (byte(1) < begin.second_min || byte(1) > begin.second_max)) return 0;
  for (std::size_t at = 2; at < begin.length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
  }
  return begin.length;
}

// What a terminal takes for a command: those of ASCII, and U+0080 to U+009F, of which U+009B is as good as ESC [. And what turns the order of
// the characters behind it round, or begins a line: U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069.
bool is_control(std::string_view character) noexcept {
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(character[at]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (character.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (byte(0) != 0xe2) return false;
  if (byte(1) == 0x80) return byte(2) == 0x8e || byte(2) == 0x8f || (byte(2) >= 0xa8 && byte(2) <= 0xae);
  return byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
}

std::string escaped(char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto bits = static_cast<std::uint8_t>(byte);
  return {'\\', 'x', digits[bits >> 4], digits[bits & 15]};
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string repaired_utf8(std::string_view text) {
  std::string out;
  while (const auto invalid = first_invalid_utf8(text)) {
    out.append(text.substr(0, *invalid)).append("\xef\xbf\xbd");
    text.remove_prefix(*invalid + 1);
  }
  return out.append(text);
}

std::string on_one_line(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) out += "\xef\xbf\xbd";
    else if (is_control(text.substr(0, length))) out += ' ';
    else out.append(text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  while (!text.empty() && out.size() <= limits::quoted_bytes_max) {
    const std::size_t length = character_length(text);
    if (length == 0 || is_control(text.substr(0, length)) || text.front() == '"' || text.front() == '\\') {
      out += escaped(text.front());
      text.remove_prefix(1);
    } else {
      out.append(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  return out + (text.empty() ? "\"" : "\"...");
}

}  // namespace ebb

// model/jinja/letters.hpp: characters as Python's str sees them: white space, and code points as the unit of lengths and positions.
#pragma once
#include "model/utf8.hpp"
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::model::jinja {

inline bool is_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

inline bool is_continuation(char byte) noexcept { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Where the last character of `bytes` begins. Pre: valid UTF-8, not empty.
inline std::size_t last_begin(std::string_view bytes) noexcept {
  std::size_t begin = bytes.size() - 1;
  while (begin > 0 && is_continuation(bytes[begin])) --begin;
  return begin;
}

// The bytes at each end whose characters are `in_set`.
template <class Predicate>
std::size_t count_leading(std::string_view bytes, Predicate in_set) {
  std::size_t count = 0;
  while (count < bytes.size()) {
    const utf8_unit unit = first_unit(bytes.substr(count));
    if (!in_set(unit.code_point)) break;
    count += unit.size_bytes;
  }
  return count;
}
template <class Predicate>
std::size_t count_trailing(std::string_view bytes, Predicate in_set) {
  std::size_t end = bytes.size();
  while (end > 0) {
    const std::size_t begin = last_begin(bytes.substr(0, end));
    if (!in_set(first_unit(bytes.substr(begin, end - begin)).code_point)) break;
    end = begin;
  }
  return bytes.size() - end;
}

// In characters.
inline std::size_t length_of(std::string_view bytes) noexcept {
  return bytes.size() - static_cast<std::size_t>(std::ranges::count_if(bytes, is_continuation));
}

// Where each character begins, and the end.
inline std::vector<std::size_t> character_begins(std::string_view bytes) {
  std::vector<std::size_t> begins;
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    if (!is_continuation(bytes[index])) begins.push_back(index);
  }
  begins.push_back(bytes.size());
  return begins;
}

// Letters beyond ASCII stay as they are (docs/CHAT_TEMPLATE.md).
inline char to_upper(char c) noexcept { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
inline char to_lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
inline bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_word(char c) noexcept { return is_letter(c) || is_digit(c) || c == '_'; }

}  // namespace ebb::model::jinja

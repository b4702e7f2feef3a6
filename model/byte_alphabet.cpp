#include "model/byte_alphabet.hpp"
#include "model/utf8.hpp"
#include <array>

namespace ebb::model {
namespace {

constexpr bool is_printable_latin1(char32_t c) { return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xFF && c != 0xAD); }

constexpr char32_t first_stand_in = 0x100;

constexpr std::array<char32_t, 256> letters = [] {
  std::array<char32_t, 256> table{};
  char32_t stand_in = first_stand_in;
  for (char32_t byte = 0; byte < 256; ++byte) table[byte] = is_printable_latin1(byte) ? byte : stand_in++;
  return table;
}();

constexpr std::size_t n_stand_ins = 68;
constexpr std::array<std::uint8_t, n_stand_ins> byte_of_stand_in = [] {
  std::array<std::uint8_t, n_stand_ins> table{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (letters[byte] >= first_stand_in) table[letters[byte] - first_stand_in] = static_cast<std::uint8_t>(byte);
  }
  return table;
}();
static_assert(letters[0xAD] == first_stand_in + n_stand_ins - 1, "the soft hyphen is the last byte that needs a stand-in");

}  // namespace

std::string letter_of(std::uint8_t byte) {
  std::string text;
  append_utf8(text, letters[byte]);
  return text;
}

std::optional<std::uint8_t> byte_of(char32_t letter) noexcept {
  if (is_printable_latin1(letter)) return static_cast<std::uint8_t>(letter);
  if (letter >= first_stand_in && letter < first_stand_in + n_stand_ins) return byte_of_stand_in[letter - first_stand_in];
  return std::nullopt;
}

std::string bytes_of_letters(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const utf8_unit unit = first_unit(text);
    if (const auto byte = byte_of(unit.code_point)) {
      bytes += static_cast<char>(*byte);
    } else {
      bytes += text.substr(0, unit.size_bytes);
    }
    text.remove_prefix(unit.size_bytes);
  }
  return bytes;
}

}  // namespace ebb::model

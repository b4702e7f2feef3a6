// model/byte_alphabet.hpp: the 256 letters by which byte-level vocabularies write bytes as text.
//
// A byte that is a printable character of Latin-1 is that character: '!' to '~', U+00A1 to U+00AC, U+00AE to U+00FF. The 68
// others, in ascending order, are U+0100, U+0101, ... So a space is U+0120 and a newline U+010A. (The alphabet of GPT-2.)
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ebb::model {

// The letter of a byte, as UTF-8.
std::string letter_of(std::uint8_t byte);

// The byte of a letter; none for a character outside the alphabet.
std::optional<std::uint8_t> byte_of(char32_t letter) noexcept;

// The bytes that a token's text stands for. Anything in it that is no letter stands for itself.
std::string bytes_of_letters(std::string_view text);

}  // namespace ebb::model

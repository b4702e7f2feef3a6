// model/utf8.hpp: UTF-8 (RFC 3629) read unit by unit, and a stream that never splits a character.
//
// Bytes that cannot be part of a character are grouped as the Unicode Standard advises (chapter 3.9, "maximal subparts"): the
// longest beginning of a well-formed sequence is one unit, any other byte is a unit of its own. A client that decodes the raw
// bytes itself would count the same replacement characters.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ebb::model {

inline constexpr char32_t replacement_character = 0xFFFD;

struct utf8_unit {
  enum class kind : std::uint8_t {
    character,   // well-formed; `code_point` holds
    invalid,     // can never become a character, whatever follows
    incomplete,  // a character that the end of the bytes cuts off
  };
  kind what;
  std::size_t size_bytes;  // > 0
  char32_t code_point;     // of a character, else replacement_character
};

// The first unit of `bytes`. Pre: not empty.
utf8_unit first_unit(std::string_view bytes) noexcept;

// Pre: a Unicode scalar value (below 0x110000, no surrogate).
void append_utf8(std::string& text, char32_t code_point);

// Turns bytes that arrive in any pieces into valid UTF-8: what may still become a character is kept back, what cannot is
// replaced by U+FFFD. The text pushed out does not depend on how the bytes were cut.
class utf8_stream {
 public:
  // Everything up to the last complete character.
  std::string push(std::string_view bytes);

  // What is still owed when no more bytes come: one U+FFFD for a character cut off, else nothing. The stream is as new after it.
  std::string finish();

 private:
  std::string pending_;  // the beginning of one character, at most three bytes
};

}  // namespace ebb::model

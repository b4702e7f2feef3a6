// tests/model/support/random_bytes.hpp: seeded text to test against, valid or not, and seeded ways to cut it.
#pragma once
#include "model/utf8.hpp"
#include <nlohmann/json.hpp>
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::model::test {

inline std::size_t below(std::mt19937_64& random, std::size_t end) { return static_cast<std::size_t>(random() % end); }

inline std::string random_bytes(std::mt19937_64& random, std::size_t size_bytes) {
  std::string bytes(size_bytes, '\0');
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
  return bytes;
}

// Characters of one to four bytes and of every kind that the expressions of pre-tokenizers tell apart.
inline std::string random_text(std::mt19937_64& random, std::size_t n_characters) {
  static constexpr char32_t kinds[] = {'a',   'b',   'Z',    ' ',    ' ',    '\n',   '\r',    '\t',    '7',     '0',
                                       '.',   '\'',  's',    'l',    '<',    '|',    0x85,    0xA0,    0xBD,    0xE9,
                                       0x301, 0x416, 0x661,  0x2003, 0x180E, 0x4E16, 0xFFFD,  0x1F433, 0x1D518, 0x10FFFF};
  std::string text;
  for (std::size_t i = 0; i < n_characters; ++i) append_utf8(text, kinds[below(random, std::size(kinds))]);
  return text;
}

// Text with some bytes overwritten, dropped or put in: mostly valid, broken in many ways.
inline std::string random_damaged_text(std::mt19937_64& random, std::size_t n_characters) {
  std::string text = random_text(random, n_characters);
  for (std::size_t n = below(random, 4); n > 0 && !text.empty(); --n) {
    const std::size_t at = below(random, text.size());
    switch (below(random, 3)) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text.erase(at, 1); break;
      default: text.insert(at, 1, static_cast<char>(random()));
    }
  }
  return text;
}

// `text` in pieces of up to piece_max bytes, some of them empty.
inline std::vector<std::string_view> random_cuts(std::mt19937_64& random, std::string_view text, std::size_t piece_max) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t size_bytes = std::min(text.size(), below(random, piece_max + 1));
    pieces.push_back(text.substr(0, size_bytes));
    text.remove_prefix(size_bytes);
  }
  return pieces;
}

// Whether another library, which refuses to write anything else, takes it for UTF-8.
inline bool valid_for_json(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace ebb::model::test

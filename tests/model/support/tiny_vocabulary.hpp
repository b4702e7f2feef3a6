// tests/model/support/tiny_vocabulary.hpp: a byte-level vocabulary small enough to read: the 256 bytes, then a few merges, then
// the tokens that are matched as a whole.
#pragma once
#include "model/byte_alphabet.hpp"
#include "model/tokenizer.hpp"
#include <string>

namespace ebb::model::test {

// The ids of the tokens after the 256 bytes, each of which is its own id.
namespace tiny {
inline constexpr token_id he = 256, ll = 257, hell = 258, hello = 259, space_w = 260;
inline constexpr token_id begin = 261, end = 262, end_turn = 263, think = 264, padding = 265;
inline constexpr token_id n_vocab = 266;
}  // namespace tiny

inline tokenizer_spec tiny_spec(const std::string& pre = "qwen2") {
  tokenizer_spec spec;
  for (int byte = 0; byte < 256; ++byte) spec.tokens.push_back(letter_of(static_cast<std::uint8_t>(byte)));
  const std::string space = letter_of(' ');
  spec.tokens.insert(spec.tokens.end(), {"he", "ll", "hell", "hello", space + "w"});
  spec.merges = {"h e", "l l", "he ll", "hell o", space + " w"};
  spec.token_types.assign(spec.tokens.size(), 1);
  spec.tokens.insert(spec.tokens.end(), {"<begin>", "<end>", "<end><turn>", "<think>", "[PAD1]"});
  spec.token_types.insert(spec.token_types.end(), {3, 3, 3, 4, 5});
  spec.pre = pre;
  spec.bos = tiny::begin;
  spec.eos = tiny::end;
  spec.end_of_text = {tiny::end_turn};
  return spec;
}

}  // namespace ebb::model::test

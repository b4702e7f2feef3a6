// tools/synthetic_vocabulary.hpp: a byte-level vocabulary of any size, in which text can be encoded and random ids can be read.
//
// First the 256 bytes, each its own id; then common English words with the space before them, and what their merges pass through;
// then made-up words of three syllables (" bakelo"), which no merge leads to, so that only a model says them; last three control tokens.
#pragma once
#include "model/tokenizer.hpp"
#include <cstdint>

namespace ebb::tools {

inline constexpr std::uint32_t synthetic_vocab_min = 256 + 3;
inline constexpr std::uint32_t synthetic_vocab_max = 1u << 18;  // above any published vocabulary; three syllables make 343,000 words

// Pre: n_vocab within these bounds.
model::tokenizer_spec synthetic_vocabulary(std::uint32_t n_vocab);

}  // namespace ebb::tools

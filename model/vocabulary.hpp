// model/vocabulary.hpp: the tokenizer of a model, from the tokenizer.ggml.* keys of its file.
#pragma once
#include "config/result.hpp"
#include "model/gguf.hpp"
#include "model/tokenizer.hpp"
#include <memory>

namespace ebb::model {

// Errors: missing_key, bad_value (a key of another type), unsupported_tokenizer (not a byte-level BPE, or a pre-tokenizer that is
// not known; named), corrupt (more tokens than token_embd.weight has rows, an id outside the vocabulary, and what tokenizer::make
// finds).
result<std::shared_ptr<const tokenizer>> read_vocabulary(const gguf& file);

}  // namespace ebb::model

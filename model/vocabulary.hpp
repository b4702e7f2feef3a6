// model/vocabulary.hpp: the tokenizer of a model, from the tokenizer.ggml.* keys of its file.
#pragma once
#include "config/result.hpp"
#include "model/gguf.hpp"
#include "model/gguf_writer.hpp"
#include "model/tokenizer.hpp"
#include <memory>

namespace ebb::model {

// Errors: missing_key, bad_value (a key of another type), unsupported_tokenizer (not a byte-level BPE, or a pre-tokenizer that is
// not known; named), corrupt (more tokens than token_embd.weight has rows, an id outside the vocabulary, and what tokenizer::make
// finds).
result<std::shared_ptr<const tokenizer>> read_vocabulary(const gguf& file);

// The keys that read_vocabulary would read that from. Pre: at most two tokens of spec.end_of_text, for which the format has keys.
void write_vocabulary(const tokenizer_spec& spec, gguf_keys& out);

}  // namespace ebb::model

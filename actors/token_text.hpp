// actors/token_text.hpp: what `tokenize` and `detokenize` are answered with.
#pragma once
#include "bus/messages.hpp"
#include "config/result.hpp"
#include "model/tokenizer.hpp"

namespace ebb::actors {

// Errors: too_large.
result<bus::tokenized> tokens_of(const model::tokenizer& vocabulary, const bus::tokenize& asked);

// Errors: bad_value (an id outside the vocabulary), too_large (a text that no message carries).
result<bus::detokenized> text_of(const model::tokenizer& vocabulary, const bus::detokenize& asked);

}  // namespace ebb::actors

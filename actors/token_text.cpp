#include "actors/token_text.hpp"
#include "config/limits.hpp"
#include <string>

namespace ebb::actors {

result<bus::tokenized> tokens_of(const model::tokenizer& vocabulary, const bus::tokenize& asked) {
  if (asked.text.size() > limits::tokenize_bytes_max) {
    return fail(errc::too_large, "field `text` has " + std::to_string(asked.text.size()) + " bytes, and at most " +
                                     std::to_string(limits::tokenize_bytes_max) + " are taken at a time; send it in parts");
  }
  bus::tokenized out;
  out.ids = vocabulary.encode(asked.text, asked.special);
  out.pieces.reserve(out.ids.size());
  for (const token_id token : out.ids) out.pieces.emplace_back(vocabulary.bytes_of(token, true));
  return out;
}

result<bus::detokenized> text_of(const model::tokenizer& vocabulary, const bus::detokenize& asked) {
  bus::detokenized out;
  for (std::size_t i = 0; i < asked.ids.size(); ++i) {
    const token_id token = asked.ids[i];
    if (!vocabulary.contains(token)) {
      return fail(errc::bad_value, "field `ids`: ids[" + std::to_string(i) + "] is " + std::to_string(token) + ", outside the vocabulary of " +
                                       std::to_string(vocabulary.n_vocab()) + " tokens");
    }
    out.text += vocabulary.bytes_of(token, true);
    if (out.text.size() > limits::detokenized_bytes_max) {
      return fail(errc::too_large, "field `ids`: the text of the first " + std::to_string(i + 1) + " tokens is longer than the " +
                                       std::to_string(limits::detokenized_bytes_max) + " bytes that an answer has; send them in parts");
    }
  }
  return out;
}

}  // namespace ebb::actors

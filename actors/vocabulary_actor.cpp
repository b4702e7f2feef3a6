#include "actors/vocabulary_actor.hpp"
#include "actors/token_text.hpp"

namespace ebb::actors {

vocabulary_actor::behavior_type vocabulary_behavior(vocabulary_actor::pointer, std::shared_ptr<const model::tokenizer> vocabulary) {
  return {
      [vocabulary](text_atom, const bus::tokenize& asked) { return to_caf(tokens_of(*vocabulary, asked)); },
      [vocabulary](text_atom, const bus::detokenize& asked) { return to_caf(text_of(*vocabulary, asked)); },
  };
}

}  // namespace ebb::actors

// actors/vocabulary_actor.hpp: tells clients what tokens a text has, and what text tokens have, while nobody waits for it.
//
//   message                  answer           errors
//   text, bus::tokenize      bus::tokenized   those of tokens_of
//   text, bus::detokenize    bus::detokenized those of text_of
//
// Owns:    nothing; the vocabulary is immutable.
// Thread:  scheduled; half a million characters take some tenths of a second. Apart from the order actor, so that orders do not wait.
#pragma once
#include "actors/caf.hpp"
#include "model/tokenizer.hpp"

namespace ebb::actors {

using vocabulary_actor = caf::typed_actor<caf::replies_to<text_atom, bus::tokenize>::with<bus::tokenized>,
                                          caf::replies_to<text_atom, bus::detokenize>::with<bus::detokenized>>;

vocabulary_actor::behavior_type vocabulary_behavior(vocabulary_actor::pointer self, std::shared_ptr<const model::tokenizer> vocabulary);

}  // namespace ebb::actors

#include "actors/residency_actor.hpp"

namespace ebb::actors {

residency_actor::behavior_type residency_behavior(residency_actor::stateful_pointer<residency_state> self) {
  return {
      [self](changed_atom, const card_actor& card, const residency_change& change) {
        if (const auto version = self->state.decisions.take(change)) self->send(card, adopt_atom::value, *version);
      },
  };
}

}  // namespace ebb::actors

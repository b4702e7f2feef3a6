#include "actors/residency_actor.hpp"

namespace ebb::actors {

residency_actor::behavior_type residency_behavior(residency_actor::stateful_pointer<residency_state> self, event_sink tell) {
  return {
      [self, tell = std::move(tell)](changed_atom, const card_actor& card, const residency_change& change) {
        const bool was_resident = self->state.decisions.resident(change.card);
        if (const auto version = self->state.decisions.take(change)) self->send(card, adopt_atom::value, *version);
        const bool is_resident = self->state.decisions.resident(change.card);
        if (is_resident != was_resident) tell(bus::residency_flipped{change.card.value, is_resident, change.resident_count, change.expert_count});
      },
  };
}

}  // namespace ebb::actors

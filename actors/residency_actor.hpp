// actors/residency_actor.hpp: decides which stages run on the fast path.
//
//   message                              answer
//   changed, card, residency_change      -          a stage that became resident gets `adopt, version`
//
// The other direction needs no message: a card drops its fast path itself, inside the shrink and before anything is unmapped.
//
// Owns:    residency, a plain class: the resident count of every stage.
// Thread:  scheduled; handlers never block and never touch a device.
#pragma once
#include "actors/card_handle.hpp"
#include "actors/event_sink.hpp"
#include "actors/residency.hpp"

namespace ebb::actors {

struct residency_state {
  residency decisions;
};

// Tells of every stage that became resident or no longer is.
residency_actor::behavior_type residency_behavior(residency_actor::stateful_pointer<residency_state> self, event_sink tell);

}  // namespace ebb::actors

// actors/profile_actor.hpp: gathers from the cards how hot each expert is and has it kept, now and then and at the end.
//
//   message     answer   errors
//   save        count    of the cards: nothing is kept then. The number of experts whose heat is
//   tick        -        to itself: save
//
// Owns:    nothing but the time of the next save; the heats are the cards'.
// Thread:  detached in the daemon, since `keep` writes a file.
#pragma once
#include "actors/card_handle.hpp"
#include <functional>
#include <vector>

namespace ebb::actors {

using profile_actor = caf::typed_actor<caf::replies_to<save_atom>::with<std::uint64_t>, caf::reacts_to<tick_atom>>;

// Gets the heats of the whole model, [layers, experts]. What goes wrong there is for it to report.
using keep_heat = std::function<void(std::vector<float>)>;

struct profile_state {
  std::vector<card_actor> cards;
  keep_heat keep;
};

profile_actor::behavior_type profile_behavior(profile_actor::stateful_pointer<profile_state> self, std::vector<card_actor> cards, keep_heat keep);

}  // namespace ebb::actors

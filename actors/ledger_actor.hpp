// actors/ledger_actor.hpp: the only writer of how much must be free on which card.
//
//   message               answer          errors
//   vram, bus::vram       vram_report     unknown_device; what a card's resize reports. With several cards: the text says which
//                                         card failed and that the others hold what was asked
//
// Commands are carried out one after the other, each on all its cards at the same time, so that two clients never mix.
//
// Owns:    ledger, a plain class that knows no CAF, no clock and no device, and is tested alone.
// Thread:  scheduled; handlers never block and never touch a device.
#pragma once
#include "actors/caf.hpp"
#include "actors/card_handle.hpp"
#include "actors/ledger.hpp"
#include <deque>
#include <optional>

namespace ebb::actors {

using ledger_actor = caf::typed_actor<caf::replies_to<vram_atom, bus::vram>::with<bus::vram_report>>;

struct ledger_state {
  std::optional<ledger> book;
  std::vector<card_actor> cards;

  struct command {
    bus::vram asked;
    caf::typed_response_promise<bus::vram_report> promise;
  };
  std::deque<command> waiting;

  // The command under way.
  std::optional<command> current;
  std::size_t answers_missing = 0;
  bus::vram_report report;
  std::optional<error> failure;
};

ledger_actor::behavior_type ledger_behavior(ledger_actor::stateful_pointer<ledger_state> self, std::vector<card_actor> cards,
                                            std::vector<std::uint32_t> start_reserve_mib);

}  // namespace ebb::actors

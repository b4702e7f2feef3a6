// actors/ledger.hpp: how much must be free on which card. A plain class: no CAF, no clock, no device.
#pragma once
#include "bus/messages.hpp"
#include "config/ids.hpp"
#include "config/result.hpp"
#include <vector>

namespace ebb::actors {

struct reserve_target {
  card_id card;
  std::uint32_t reserve_mib;
  friend bool operator==(const reserve_target&, const reserve_target&) = default;
};

class ledger {
 public:
  // The reserves of the start, one a card in the order of their numbers. Pre: at least one card (asserts).
  explicit ledger(std::vector<std::uint32_t> start_reserve_mib);

  // What a command asks of which card. Changes nothing. Errors: unknown_device (names the devices there are).
  result<std::vector<reserve_target>> targets(const bus::vram& command) const;

  // A card has been brought to this reserve.
  void set(const reserve_target& held);

  std::uint32_t reserve_mib(card_id card) const { return held_mib_.at(card.value); }

 private:
  std::vector<std::uint32_t> start_mib_;
  std::vector<std::uint32_t> held_mib_;
};

}  // namespace ebb::actors

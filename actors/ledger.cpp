#include "actors/ledger.hpp"
#include "config/assert.hpp"
#include <string>

namespace ebb::actors {

ledger::ledger(std::vector<std::uint32_t> start_reserve_mib) : start_mib_(std::move(start_reserve_mib)), held_mib_(start_mib_) {
  EBB_ASSERT(!start_mib_.empty());
}

result<std::vector<reserve_target>> ledger::targets(const bus::vram& command) const {
  const auto target_of = [&](std::uint32_t device) {
    return reserve_target{{device}, command.reserve_mib.value_or(start_mib_[device])};
  };
  const std::size_t n_cards = start_mib_.size();
  if (command.device) {
    if (*command.device < n_cards) return std::vector{target_of(*command.device)};
    const std::string devices = n_cards == 1 ? "the only device is 0" : "devices are 0 to " + std::to_string(n_cards - 1);
    return fail(errc::unknown_device, "no device " + std::to_string(*command.device) + " in this run; " + devices);
  }
  std::vector<reserve_target> all;
  for (std::uint32_t device = 0; device < n_cards; ++device) all.push_back(target_of(device));
  return all;
}

void ledger::set(const reserve_target& held) { held_mib_.at(held.card.value) = held.reserve_mib; }

}  // namespace ebb::actors

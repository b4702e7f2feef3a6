#include "bus/http/kept_reserves.hpp"
#include <algorithm>

namespace ebb::bus::http {

kept_reserves::kept_reserves(const settings& running)
    : running_(running), n_cards_(running.cards.empty() ? std::nullopt : std::optional(running.cards.size())) {}

void kept_reserves::keep(const vram& asked) {
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [&](const vram& each) { return !asked.device || each.device == asked.device; });
  if (kept_.size() < limits::in_flight_max) kept_.push_back(asked);  // as many as the daemon keeps
}

std::optional<std::uint32_t> kept_reserves::start_mib(std::uint32_t device) const {
  if (n_cards_) return ebb::reserve_mib(running_, running_.cards.at(device).kind, device);
  if (running_.vram_reserve_mib.size() == 1) return running_.vram_reserve_mib.front();
  return std::nullopt;
}

std::optional<std::uint32_t> kept_reserves::reserve_mib(std::uint32_t device) const {
  const std::lock_guard lock(mutex_);
  const auto newest = std::find_if(kept_.rbegin(), kept_.rend(), [&](const vram& each) { return !each.device || *each.device == device; });
  if (newest == kept_.rend()) return std::nullopt;
  return newest->reserve_mib ? newest->reserve_mib : start_mib(device);
}

bool kept_reserves::one_has_its_own() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(kept_.begin(), kept_.end(), [](const vram& each) { return each.device.has_value(); });
}

std::optional<std::uint32_t> kept_reserves::common_mib(const std::optional<std::uint32_t>& device) const {
  if (device) return reserve_mib(*device);
  if (!n_cards_ && one_has_its_own()) return std::nullopt;
  const auto first = reserve_mib(0);
  for (std::uint32_t each = 1; each < n_cards_.value_or(1); ++each) {
    if (reserve_mib(each) != first) return std::nullopt;
  }
  return first;
}

}  // namespace ebb::bus::http

// bus/http/kept_reserves.hpp: the reserves that were asked for during the load and wait for its end, as far as they were asked for here.
#pragma once
#include "bus/messages.hpp"
#include "config/settings.hpp"
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace ebb::bus::http {

class kept_reserves {
 public:
  // With cards that are "auto" it is known only after the load how many there are.
  explicit kept_reserves(const settings& running);

  // Whether the run may have such a card.
  bool may_have(std::uint32_t device) const noexcept { return !n_cards_ || device < *n_cards_; }
  const std::optional<std::size_t>& n_cards() const noexcept { return n_cards_; }

  void keep(const vram& asked);

  // Of this card, once the model is there; none: nobody has asked here, and what the daemon knows of earlier runs is not known here.
  std::optional<std::uint32_t> reserve_mib(std::uint32_t device) const;
  // Of that card, or of every one; none: they differ, or one is not known.
  std::optional<std::uint32_t> common_mib(const std::optional<std::uint32_t>& device) const;

 private:
  std::optional<std::uint32_t> start_mib(std::uint32_t device) const;
  bool one_has_its_own() const;

  const settings running_;
  const std::optional<std::size_t> n_cards_;
  mutable std::mutex mutex_;
  std::vector<vram> kept_;  // at most one a card, and one for all before them
};

}  // namespace ebb::bus::http

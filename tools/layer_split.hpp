// tools/layer_split.hpp: which layers live on which card.
#pragma once
#include "config/result.hpp"
#include <cstdint>
#include <span>
#include <vector>

namespace ebb::tools {

struct layer_range {
  std::uint32_t begin;
  std::uint32_t end;
  friend bool operator==(const layer_range&, const layer_range&) = default;
};

// One contiguous range a card. `first_layers` gives the first layer of each card, ascending from 0. Where it is empty the layers are
// shared out in proportion to `shares`, each > 0, and at least one a card; where that is empty too as even as can be, the earlier cards
// with one more where it does not divide. Pre: no shares, or one a card (asserts).
// Errors: bad_value (more cards than layers, or first layers that do not fit; names the setting and what would fit).
result<std::vector<layer_range>> split_layers(std::uint32_t n_layers, std::size_t n_cards, std::span<const std::uint32_t> first_layers,
                                              std::span<const double> shares = {});

}  // namespace ebb::tools

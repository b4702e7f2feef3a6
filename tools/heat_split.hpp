// tools/heat_split.hpp: which layers live on which card, by how hot their experts were in earlier runs.
//
// A card holds the hottest experts of its layers that fit. A layer whose picks spread over all its experts needs more slots than one that
// always picks the same few, so shares of layers in proportion to free memory are not those that hit most.
#pragma once
#include "tools/layer_split.hpp"
#include <cstdint>
#include <span>
#include <vector>

namespace ebb::tools {

struct card_room {
  std::uint64_t free_bytes = 0;   // for its layers: dense weights, keys and values, and the cache
  std::uint64_t fixed_bytes = 0;  // of these, what it needs whatever its layers are
};

struct layer_costs {
  std::uint64_t dense_bytes = 0;  // of a layer: dense weights, keys and values
  std::uint64_t slot_bytes = 0;   // of an expert, > 0
};

// The first layer of each card in the split whose caches hold the largest share of `heat` [layers, n_experts]. Splits that are equal to a
// thousandth differ by how near they are to `otherwise`, one range a card, which is also the answer where nothing is hot yet.
// O(cards * layers^2 * experts).
std::vector<std::uint32_t> first_layers_by_heat(std::span<const float> heat, std::uint32_t n_experts, std::span<const card_room> cards,
                                                const layer_costs& costs, std::span<const layer_range> otherwise);

}  // namespace ebb::tools

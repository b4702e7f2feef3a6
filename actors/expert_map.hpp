// actors/expert_map.hpp: a card's residency and heat as a page shows them: a bit and a byte for each expert.
#pragma once
#include "actors/expert_cache.hpp"
#include "actors/expert_heat.hpp"
#include "bus/messages.hpp"

namespace ebb::actors {

// Pre: `cache` and `heat` are of the same experts (asserts). O(experts).
bus::expert_map map_of(card_id card, const expert_cache& cache, const expert_heat& heat);

}  // namespace ebb::actors

// tools/cache_size.hpp: which reserve gives a card's cache a size.
//
// A command says how much must stay free, not how large a cache may be; what is free of a device beside the cache can be anything.
#pragma once
#include "bus/messages.hpp"
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace ebb::tools {

// The reserve at which the cache of this card, as it is now, keeps at most `cache_mib`; 0 or less: nothing, and so much more is asked for.
inline std::uint32_t reserve_for(const bus::card_report& now, double cache_mib) {
  return static_cast<std::uint32_t>(std::max(0.0, std::ceil(now.vram_free_mib + now.expert_cache_mib - cache_mib)));
}

}  // namespace ebb::tools

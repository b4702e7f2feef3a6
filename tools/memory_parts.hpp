// tools/memory_parts.hpp: whose a card's memory is, as far as the daemon's figures tell (bus/http/page/memory.js says the same to a browser).
//
// The driver tells what is free, a card what it holds, a lease what was promised; nobody tells how much of a lease its holder has taken.
// What is free beyond the reserve is counted as promised and not taken yet, so no MiB is counted twice.
#pragma once
#include "bus/messages.hpp"
#include <vector>

namespace ebb::tools {

// MiB; together the whole device.
struct memory_parts {
  double cache = 0;   // of experts
  double rest = 0;    // what the card holds besides: weights, keys and values, buffers
  double beside = 0;  // of other cards on the same GPU
  double lent = 0;
  double others = 0;  // other programs, and contexts
  double free = 0;    // and not promised

  double total() const noexcept { return cache + rest + beside + lent + others + free; }
};

memory_parts parts_of(const bus::card_info& card, const std::vector<bus::card_info>& all, const std::vector<bus::lease_info>& leases);

}  // namespace ebb::tools

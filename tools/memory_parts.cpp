#include "tools/memory_parts.hpp"
#include <algorithm>

namespace ebb::tools {
namespace {

double positive(double value) noexcept { return std::max(0.0, value); }

double held_mib(const bus::card_info& card) noexcept { return card.held_mib.value_or(positive(card.rss_mib)); }

}  // namespace

memory_parts parts_of(const bus::card_info& card, const std::vector<bus::card_info>& all, const std::vector<bus::lease_info>& leases) {
  memory_parts parts;
  parts.cache = card.report.expert_cache_mib;
  if (card.kind != "host") parts.rest = positive(held_mib(card) - parts.cache);
  for (const bus::card_info& other : all) {
    if (other.report.device != card.report.device && !card.uuid.empty() && other.uuid == card.uuid) parts.beside += held_mib(other);
  }
  double promised = 0;
  for (const bus::lease_info& each : leases) promised += each.device == card.report.device ? each.mib : 0;
  const double free = card.report.vram_free_mib;
  const double elsewhere = positive(card.memory_mib - parts.cache - parts.rest - parts.beside - free);
  const double taken = std::min(positive(promised - positive(free - card.report.reserve_mib)), elsewhere);
  const double waiting = std::min(free, promised - taken);
  parts.others = elsewhere - taken;
  parts.lent = waiting + taken;
  parts.free = free - waiting;
  return parts;
}

}  // namespace ebb::tools

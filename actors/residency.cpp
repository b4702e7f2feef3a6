#include "actors/residency.hpp"
#include "config/assert.hpp"

namespace ebb::actors {

std::optional<std::uint64_t> residency::take(const residency_change& change) {
  EBB_ASSERT(change.resident_count <= change.expert_count);
  stage& known = stages_[change.card];
  EBB_ASSERT(change.version >= known.version);
  const bool resident = change.resident_count == change.expert_count;
  const bool news = change.version != known.version || resident != known.resident;
  known = {change.version, resident};
  if (!resident || !news) return std::nullopt;
  return change.version;
}

bool residency::resident(card_id card) const {
  const auto found = stages_.find(card);
  return found != stages_.end() && found->second.resident;
}

}  // namespace ebb::actors

#include "actors/expert_cache.hpp"
#include <algorithm>
#include <iterator>
#include <ranges>

namespace ebb::actors {
namespace {

// The first `count_max` of the experts that are candidates, in the order `comes_first`; both take flat numbers.
template <class Candidate, class Order>
std::vector<expert_id> first_of(const expert_range& experts, std::size_t count_max, Candidate is_candidate, Order comes_first) {
  auto candidates = std::views::iota(std::uint32_t{0}, experts.count()) | std::views::filter(is_candidate);
  std::vector<std::uint32_t> chosen(std::min<std::size_t>(count_max, experts.count()));
  const auto copied = std::ranges::partial_sort_copy(candidates, chosen, comes_first);
  std::vector<expert_id> ids;
  ids.reserve(chosen.size());
  std::transform(chosen.begin(), copied.out, std::back_inserter(ids), [&](std::uint32_t number) { return experts.at(number); });
  return ids;
}

}  // namespace

expert_cache::expert_cache(expert_range experts, std::uint32_t slots_full)
    : experts_(experts), slot_(experts.count(), none), occupant_(slots_full, none) {}

std::optional<slot_id> expert_cache::slot_of(expert_id expert) const noexcept {
  const std::uint32_t slot = slot_[experts_.number_of(expert)];
  return slot == none ? std::nullopt : std::optional(slot_id{slot});
}

std::optional<expert_id> expert_cache::occupant(slot_id slot) const noexcept {
  EBB_ASSERT(slot.value < slots_full());
  const std::uint32_t number = occupant_[slot.value];
  return number == none ? std::nullopt : std::optional(experts_.at(number));
}

std::vector<expert_id> expert_cache::coldest_residents(std::size_t count_max, const expert_heat& heat) const {
  return first_of(
      experts_, count_max, [&](std::uint32_t number) { return slot_[number] != none; },
      [&](std::uint32_t a, std::uint32_t b) { return heat.is_hotter(b, a); });
}

std::vector<expert_id> expert_cache::hottest_absent(std::size_t count_max, const expert_heat& heat) const {
  return first_of(
      experts_, count_max, [&](std::uint32_t number) { return slot_[number] == none; },
      [&](std::uint32_t a, std::uint32_t b) { return heat.is_hotter(a, b); });
}

shrink_plan expert_cache::plan_shrink(std::uint32_t new_slots, const expert_heat& heat) const {
  EBB_ASSERT(new_slots <= slots_usable_);
  EBB_ASSERT(heat.experts() == experts_);
  shrink_plan plan;
  plan.evict = coldest_residents(resident_count_ - std::min(resident_count_, new_slots), heat);

  std::vector<bool> leaves(slots_usable_, false);
  for (const expert_id expert : plan.evict) leaves[slot_[experts_.number_of(expert)]] = true;
  const auto stays = [&](std::uint32_t slot) { return occupant_[slot] != none && !leaves[slot]; };

  // Sources lie at or above new_slots and targets below it, so no move depends on another.
  std::uint32_t to = 0;
  for (std::uint32_t from = new_slots; from < slots_usable_; ++from) {
    if (!stays(from)) continue;
    while (stays(to)) ++to;
    plan.moves.push_back({experts_.at(occupant_[from]), slot_id{from}, slot_id{to++}});
  }
  return plan;
}

std::vector<cache_fill> expert_cache::plan_growth(std::uint32_t new_slots, const expert_heat& heat) const {
  EBB_ASSERT(new_slots >= slots_usable_);
  EBB_ASSERT(new_slots <= slots_full());
  EBB_ASSERT(heat.experts() == experts_);
  std::vector<cache_fill> fills;
  std::uint32_t slot = 0;
  for (const expert_id expert : hottest_absent(new_slots - resident_count_, heat)) {
    while (occupant_[slot] != none) ++slot;
    fills.push_back({expert, slot_id{slot++}});
  }
  return fills;
}

std::vector<cache_swap> expert_cache::plan_swaps(std::uint32_t swaps_max, const expert_heat& heat, double margin) const {
  EBB_ASSERT(margin >= 1);
  EBB_ASSERT(heat.experts() == experts_);
  const std::vector<expert_id> in = hottest_absent(swaps_max, heat);
  const std::vector<expert_id> out = coldest_residents(swaps_max, heat);
  std::vector<cache_swap> swaps;
  for (std::size_t i = 0; i < std::min(in.size(), out.size()); ++i) {
    if (!(heat.heat(in[i]) > heat.heat(out[i]) * margin)) break;  // the later pairs are closer still
    swaps.push_back({in[i], out[i], *slot_of(out[i])});
  }
  return swaps;
}

void expert_cache::place(expert_id expert, slot_id slot) noexcept {
  EBB_ASSERT(slot.value < slots_usable_);
  EBB_ASSERT(!occupant(slot));
  EBB_ASSERT(!slot_of(expert));
  const std::uint32_t number = experts_.number_of(expert);
  slot_[number] = slot.value;
  occupant_[slot.value] = number;
  resident_count_ += 1;
}

void expert_cache::evict(expert_id expert) noexcept {
  EBB_ASSERT(slot_of(expert));
  std::uint32_t& slot = slot_[experts_.number_of(expert)];
  occupant_[slot] = none;
  slot = none;
  resident_count_ -= 1;
}

void expert_cache::move(expert_id expert, slot_id to) noexcept {
  evict(expert);
  place(expert, to);
}

void expert_cache::set_slots_usable(std::uint32_t slots) noexcept {
  EBB_ASSERT(slots <= slots_full());
  for (std::uint32_t slot = slots; slot < slots_usable_; ++slot) EBB_ASSERT(occupant_[slot] == none);
  slots_usable_ = slots;
}

}  // namespace ebb::actors

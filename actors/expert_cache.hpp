// actors/expert_cache.hpp: which expert of a stage is in which slot of its card.
//
// A plan is computed from heat and changes nothing. The card carries it out step by step and calls place, evict or move as each
// copy succeeds, so the tables tell the truth wherever it stops half-way. Within a plan the steps are in an order that can be
// executed one after the other.
#pragma once
#include "actors/expert_heat.hpp"
#include <optional>

namespace ebb::actors {

struct cache_fill {
  expert_id expert;
  slot_id slot;
  friend bool operator==(const cache_fill&, const cache_fill&) = default;
};
struct cache_move {
  expert_id expert;
  slot_id from, to;
  friend bool operator==(const cache_move&, const cache_move&) = default;
};
struct cache_swap {
  expert_id in, out;
  slot_id slot;  // of `out` now
  friend bool operator==(const cache_swap&, const cache_swap&) = default;
};

// First all evictions, then the moves: a move may go where an evicted expert was.
struct shrink_plan {
  std::vector<expert_id> evict;  // coldest first
  std::vector<cache_move> moves;
};

class expert_cache {
 public:
  // Empty, and no slot usable yet. Slots are numbered [0, slots_full).
  expert_cache(expert_range experts, std::uint32_t slots_full);

  std::optional<slot_id> slot_of(expert_id expert) const noexcept;
  std::optional<expert_id> occupant(slot_id slot) const noexcept;
  const expert_range& experts() const noexcept { return experts_; }
  std::uint32_t slots_full() const noexcept { return static_cast<std::uint32_t>(occupant_.size()); }
  std::uint32_t slots_usable() const noexcept { return slots_usable_; }  // slots [0, slots_usable) are mapped
  std::uint32_t resident_count() const noexcept { return resident_count_; }
  bool all_resident() const noexcept { return resident_count_ == experts_.count(); }

  // What leaves, and what moves down, so that the hottest of all residents are within slots [0, new_slots).
  // Pre: new_slots <= slots_usable() (asserts). `heat` is of the same experts, here and below (asserts).
  shrink_plan plan_shrink(std::uint32_t new_slots, const expert_heat& heat) const;

  // Fills every empty slot of [0, new_slots), the hottest of the others first. With new_slots = slots_usable() it fills up.
  // Pre: slots_usable() <= new_slots <= slots_full() (asserts).
  std::vector<cache_fill> plan_growth(std::uint32_t new_slots, const expert_heat& heat) const;

  // At most `swaps_max` exchanges, the hottest of the others against the coldest residents, as long as
  // heat(in) > heat(out) * margin. Pre: margin >= 1 (asserts).
  //
  // Why this does not thrash: right after a swap the way back needs the ratio of the two heats to change by more than margin^2.
  // Experts that are used in turn, each once in P windows, differ by at most a factor of 2^((P - 1) / half-life). So uses that repeat
  // within half_life * log2(margin) windows swap nothing once the heats have settled, however small the cache is, while an LRU
  // that is smaller than one round would replace all of it in every round.
  std::vector<cache_swap> plan_swaps(std::uint32_t swaps_max, const expert_heat& heat, double margin) const;

  // Steps of a plan, each after its copy succeeded. Broken conditions are the caller's bug and assert.
  void place(expert_id expert, slot_id slot) noexcept;  // expert not resident, slot usable and empty
  void evict(expert_id expert) noexcept;                // expert resident
  void move(expert_id expert, slot_id to) noexcept;     // expert resident, `to` usable and empty
  void set_slots_usable(std::uint32_t slots) noexcept;  // no occupant at or beyond `slots`; slots <= slots_full()

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  std::vector<expert_id> coldest_residents(std::size_t count_max, const expert_heat& heat) const;
  std::vector<expert_id> hottest_absent(std::size_t count_max, const expert_heat& heat) const;

  expert_range experts_;
  std::vector<std::uint32_t> slot_;      // [experts_.count()]: its slot, or none
  std::vector<std::uint32_t> occupant_;  // [slots_full]: the number of its expert, or none
  std::uint32_t slots_usable_ = 0;
  std::uint32_t resident_count_ = 0;
};

}  // namespace ebb::actors

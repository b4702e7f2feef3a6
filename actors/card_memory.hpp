// actors/card_memory.hpp: a card's cache as one thing: what is mapped, which expert is in which slot, and the table a window reads.
//
// The three are changed here and nowhere else, in the order that keeps every window right (docs/ARCHITECTURE.md):
//   to give memory back   evict and compact -> publish -> unmap -> release
//   to take memory        map -> copy in -> publish
// Publishing an expert is one entry of the table, written between two windows by the card's thread, which also runs the windows.
// A plain class: no CAF, no clock; actors/resize.hpp drives it in steps.
#pragma once
#include "actors/copy_pace.hpp"
#include "actors/expert_cache.hpp"
#include "actors/expert_heat.hpp"
#include "kernels/memory/arena.hpp"
#include "model/expert_store.hpp"
#include "model/expert_table.hpp"
#include <memory>
#include <span>

namespace ebb::actors {

struct card_memory_options {
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;
  std::uint32_t n_experts = 0;          // of a layer
  std::uint32_t slots_full = 0;         // what the arena's layout was made for
  double heat_half_life_windows = 256;  // about a paragraph of text
};

class card_memory {
 public:
  // Nothing is mapped and every expert is in the store. Pre: the arena's full_bytes are slots_full slots (asserts).
  card_memory(std::shared_ptr<const model::expert_store> store, std::unique_ptr<kernels::arena> arena, const card_memory_options& options);

  const kernels::arena& arena() const noexcept { return *arena_; }
  const kernels::slot_layout& slots() const noexcept { return slots_; }
  const expert_cache& cache() const noexcept { return cache_; }
  const expert_heat& heat() const noexcept { return heat_; }
  const model::expert_table& table() const noexcept { return table_; }
  bool resident() const noexcept { return cache_.all_resident(); }
  std::uint64_t version() const noexcept { return table_.version(); }  // of the table

  copy_pace& pace() noexcept { return pace_; }  // of copies on their way while windows run

  void note(expert_id expert, double uses) noexcept { heat_.note(expert, uses); }
  void end_window() noexcept { heat_.end_window(); }
  void restore_heat(std::span<const float> heats) { heat_.restore(heats); }

  // --- steps, each whole or without effect. Errors: those of the arena.
  // Those with several begin all their copies and wait once.
  void evict(expert_id expert) noexcept;
  // An expert that cannot be moved stays where it is; the others are moved all the same.
  result<void> move(std::span<const cache_move> steps);
  // Ends at the first that fails; those before it are filled, unless waiting for the copies failed: then none is.
  result<void> fill(std::span<const cache_fill> steps);
  result<void> fill(const cache_fill& step) { return fill(std::span(&step, 1)); }
  // The same in two parts, between which windows may run: the slots are not read before the end. begin_fill says in `begun` how many of the
  // steps are on their way, which are the ones to end.
  result<void> begin_fill(std::span<const cache_fill> steps, std::size_t& begun);
  result<void> end_fill(std::span<const cache_fill> begun);
  // The experts that leave are read from the store before their slots are overwritten, so a fill that fails leaves empty slots.
  result<void> swap(std::span<const cache_swap> steps);
  void set_slots_usable(std::uint32_t slots) noexcept { cache_.set_slots_usable(slots); }
  result<void> map(kernels::segment_index segment) { return arena_->map(segment); }
  result<void> unmap(kernels::segment_index segment);
  result<void> remap(kernels::segment_index segment) { return arena_->remap(segment); }
  void release(kernels::segment_index segment) noexcept { arena_->release(segment); }

  // Whether the table, the cache and the mapped memory say the same: every expert in a usable slot is read from that slot, every
  // other from the store, and every usable slot is mapped. For tests and debug builds; O(experts).
  bool consistent() const noexcept;

  // Whether the table is, entry for entry, what was published last. Compared at both ends of each window in debug builds; O(experts).
  bool as_published() const noexcept { return table_.checksum() == published_checksum_; }

 private:
  void note_published() noexcept;
  const std::byte* address_of(slot_id slot) const noexcept;
  result<void> begin_copy_from_store(const cache_fill& step);

  std::shared_ptr<const model::expert_store> store_;
  std::unique_ptr<kernels::arena> arena_;
  kernels::slot_layout slots_;
  expert_cache cache_;
  expert_heat heat_;
  model::expert_table table_;
  copy_pace pace_;
  std::uint64_t published_checksum_ = 0;  // of the table, in debug builds
};

}  // namespace ebb::actors

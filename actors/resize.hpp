// actors/resize.hpp: one change of a cache's size, as a transaction in steps that fit between windows.
//
//   shrink   evict the coldest, compact -> slots no longer usable -> unmap every segment beyond the keep -> release them
//            -> fill what an earlier failure left empty
//   grow     map the segments up to the keep -> slots usable -> fill them, hottest first
//
// A step ends at a time that the caller names, and the memory is consistent between any two steps. Whatever fails is rolled back:
// a shrink remaps what it unmapped and refills what it evicted, a growth releases what it mapped. A growth that has mapped its
// segments and only fails to fill a slot keeps them and reports the error: the memory is taken, the slot is empty.
#pragma once
#include "actors/card_memory.hpp"
#include "actors/clock.hpp"
#include "config/limits.hpp"
#include "config/result.hpp"
#include <span>
#include <vector>

namespace ebb::actors {

class resize {
 public:
  // Pre: keep_bytes is a border of the arena's segments (asserts). `memory` must outlive this. Copies of up to `batch_bytes`, but of one
  // slot at least, are a unit of work.
  resize(card_memory& memory, std::uint64_t keep_bytes, std::uint64_t batch_bytes = limits::copy_batch_bytes);

  // Works until it is done or `now()` has reached `until`, or copies are on their way: where the device copies by itself, windows run meanwhile, and the
  // next step waits for the rest. At least one unit of work a call. True when done.
  bool step(const clock_fn& now, time_point until);

  // Whether a shrink is to come: the fast path must be dropped before the first step.
  bool shrinks() const noexcept { return shrinks_; }

  // Slots that are mapped by now and whose expert is still to come; 0 while a shrink gives back, and when all has been tried.
  std::uint32_t slots_to_fill() const noexcept;

  // Pre: step has returned true. What went wrong, if anything did; then the memory is as the class comment says.
  const result<void>& outcome() const noexcept { return outcome_; }

 private:
  enum class phase : std::uint8_t { evict, compact, unmap, release, map, fill, done };

  bool copies_later(const clock_fn& now, time_point step_began) const;
  void advance(const clock_fn& now);
  void evict_all();
  void compact_some();
  void unmap_all();
  void release_one();
  void map_one();
  void plan_fills();
  void fill_some(const clock_fn& now);
  void await_copies(const clock_fn& now);
  void end_fills();
  // At most so many of the steps that come after the first `done`, which it counts as done.
  template <class Step>
  static std::span<const Step> next_batch(const std::vector<Step>& steps, std::size_t& done, std::size_t count_max) noexcept {
    const std::span<const Step> next = std::span(steps).subspan(done, std::min(count_max, steps.size() - done));
    done += next.size();
    return next;
  }
  void roll_back_unmap(kernels::segment_index failed, error why);
  void roll_back_map(error why);
  void use_what_is_mapped();

  card_memory& memory_;
  std::uint64_t keep_bytes_;
  kernels::segment_index segments_before_;
  kernels::segment_index segments_keep_;
  std::uint32_t slots_keep_;
  std::size_t batch_;  // copies at a time
  bool shrinks_;
  phase phase_;
  shrink_plan leaving_;
  std::size_t moves_done_ = 0;
  kernels::segment_index segment_;  // the next to release (downwards) or to map (upwards)
  bool released_ = false;             // the shrink has given back what it was asked for, or some of it
  std::vector<cache_fill> fills_;
  std::size_t fills_done_ = 0;
  std::span<const cache_fill> on_their_way_;  // of fills_: begun, and not ended yet
  time_point copies_began_{};
  result<void> fill_outcome_;                 // of beginning them
  result<void> outcome_;
};

}  // namespace ebb::actors

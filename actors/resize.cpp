#include "actors/resize.hpp"
#include "config/assert.hpp"

namespace ebb::actors {

resize::resize(card_memory& memory, std::uint64_t keep_bytes, std::uint64_t batch_bytes)
    : memory_(memory),
      keep_bytes_(keep_bytes),
      segments_before_(memory.arena().mapped_count()),
      segments_keep_(memory.arena().layout().segments_below(keep_bytes)),
      slots_keep_(memory.slots().slots_in(keep_bytes)),
      batch_(std::max(1u, memory.slots().slots_in(batch_bytes))),
      shrinks_(segments_keep_ < segments_before_),
      phase_(shrinks_ ? phase::evict : phase::map),
      segment_(segments_before_) {}

bool resize::step(const clock_fn& now, time_point until) {
  const time_point began = memory_.arena().copies_by_itself() ? now() : time_point{};
  do {
    if (phase_ != phase::done) advance(now);
  } while (phase_ != phase::done && on_their_way_.empty() && !copies_later(now, began) && now() < until);
  return phase_ == phase::done;
}

// Before the first copies beside windows.
bool resize::copies_later(const clock_fn& now, time_point step_began) const {
  if (phase_ != phase::fill || fills_done_ > 0 || !memory_.arena().copies_by_itself()) return false;
  return now() - step_began > limits::before_copies_max;
}

void resize::advance(const clock_fn& now) {
  switch (phase_) {
    case phase::evict: return evict_all();
    case phase::compact: return compact_some();
    case phase::unmap: return unmap_all();
    case phase::release: return release_one();
    case phase::map: return map_one();
    case phase::fill: return fill_some(now);
    case phase::done: return;
  }
}

void resize::evict_all() {
  leaving_ = memory_.cache().plan_shrink(slots_keep_, memory_.heat());
  for (const expert_id expert : leaving_.evict) memory_.evict(expert);
  phase_ = phase::compact;
}

void resize::compact_some() {
  const auto next = next_batch(leaving_.moves, moves_done_, batch_);
  if (!next.empty()) {
    // Swaps wait while a resize is under way, so the plan still holds. An expert that cannot be copied is read from the store.
    if (!memory_.move(next)) {
      for (const cache_move& step : next) {
        if (memory_.cache().slot_of(step.expert) == step.from) memory_.evict(step.expert);
      }
    }
    return;
  }
  memory_.set_slots_usable(slots_keep_);
  phase_ = phase::unmap;
}

// All or none, and quick (about a millisecond a GiB): if one segment stays, those before it come back.
void resize::unmap_all() {
  for (kernels::segment_index segment = segments_before_; segment > segments_keep_; --segment) {
    if (auto unmapped = memory_.unmap(segment - 1); !unmapped) return roll_back_unmap(segment - 1, unmapped.error());
  }
  phase_ = phase::release;
}

void resize::roll_back_unmap(kernels::segment_index failed, error why) {
  for (kernels::segment_index segment = failed + 1; segment < segments_before_; ++segment) {
    if (memory_.remap(segment)) continue;
    // What cannot be mapped again is given up, with all behind it: a cache is mapped from its first byte without holes.
    for (kernels::segment_index lost = segment; lost < segments_before_; ++lost) memory_.release(lost);
    break;
  }
  outcome_ = fail(std::move(why));
  use_what_is_mapped();
}

void resize::release_one() {
  if (segment_ == segments_keep_) return plan_fills();  // of slots that an earlier failure left empty; mostly there are none
  memory_.release(--segment_);
  released_ = true;
}

void resize::map_one() {
  if (segment_ < segments_keep_) {
    auto mapped = memory_.map(segment_);
    if (!mapped) return roll_back_map(mapped.error());
    ++segment_;
    return;
  }
  use_what_is_mapped();
}

void resize::roll_back_map(error why) {
  outcome_ = fail(std::move(why));
  while (segment_ > segments_before_) {
    // What cannot be unmapped is used instead, with all before it: a segment below it would leave a hole.
    if (!memory_.unmap(segment_ - 1)) return use_what_is_mapped();
    memory_.release(--segment_);
  }
  phase_ = phase::done;
}

void resize::use_what_is_mapped() {
  memory_.set_slots_usable(memory_.slots().slots_in(memory_.arena().mapped_bytes()));
  plan_fills();
}

void resize::plan_fills() {
  fills_ = memory_.cache().plan_growth(memory_.cache().slots_usable(), memory_.heat());
  fills_done_ = 0;
  phase_ = fills_.empty() ? phase::done : phase::fill;
}

void resize::fill_some(const clock_fn& now) {
  if (!on_their_way_.empty()) return await_copies(now);
  const bool ahead = memory_.arena().copies_by_itself();
  const auto next = next_batch(fills_, fills_done_, ahead ? std::max(1u, memory_.slots().slots_in(memory_.pace().bytes())) : batch_);
  if (next.empty()) {
    phase_ = phase::done;
    return;
  }
  std::size_t begun = 0;
  if (ahead) copies_began_ = now();
  fill_outcome_ = memory_.begin_fill(next, begun);
  on_their_way_ = next.first(begun);
  if (!ahead || !fill_outcome_) end_fills();
}

void resize::await_copies(const clock_fn& now) {
  const std::uint64_t bytes = on_their_way_.size() * memory_.slots().slot_bytes();
  const time_point waits = now();
  end_fills();
  const time_point ends = now();
  memory_.pace().note(bytes, milliseconds_between(copies_began_, ends), milliseconds_between(waits, ends));
}

std::uint32_t resize::slots_to_fill() const noexcept {
  if (phase_ != phase::map && phase_ != phase::fill) return 0;
  return memory_.slots().slots_in(memory_.arena().mapped_bytes()) - memory_.cache().resident_count();
}

void resize::end_fills() {
  auto ended = memory_.end_fill(on_their_way_);
  on_their_way_ = {};
  if (ended && fill_outcome_) return;
  if (outcome_ && !released_) outcome_ = fill_outcome_ ? ended : fill_outcome_;  // what failed first says more, and a shrink has done what it was for
  phase_ = phase::done;
}

}  // namespace ebb::actors

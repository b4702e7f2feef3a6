#include "kernels/memory/arena.hpp"
#include "config/assert.hpp"

namespace ebb::kernels {

arena::arena(segment_layout layout) : layout_(layout) {
  EBB_ASSERT(layout.segment_bytes > 0);
  EBB_ASSERT(layout.full_bytes > 0);
  states_.resize(layout.count(), segment_state::absent);
}

segment_state arena::state(segment_index segment) const noexcept {
  EBB_ASSERT(segment < layout_.count());
  return states_[segment];
}

void arena::enter(segment_index segment, segment_state next) noexcept {
  const std::uint64_t size = layout_.size_of(segment);
  if (states_[segment] == segment_state::mapped) {
    mapped_count_ -= 1;
    mapped_bytes_ -= size;
  }
  if (states_[segment] == segment_state::absent) held_bytes_ += size;
  if (next == segment_state::absent) held_bytes_ -= size;
  if (next == segment_state::mapped) {
    mapped_count_ += 1;
    mapped_bytes_ += size;
  }
  states_[segment] = next;
}

result<void> arena::map(segment_index segment) {
  EBB_ASSERT(state(segment) == segment_state::absent);
  auto done = do_map(segment);
  if (done) enter(segment, segment_state::mapped);
  return done;
}

result<void> arena::unmap(segment_index segment) {
  EBB_ASSERT(state(segment) == segment_state::mapped);
  EBB_ASSERT(!copies_under_way_);
  auto done = do_unmap(segment);
  if (done) enter(segment, segment_state::unmapped);
  return done;
}

result<void> arena::remap(segment_index segment) {
  EBB_ASSERT(state(segment) == segment_state::unmapped);
  auto done = do_remap(segment);
  if (done) enter(segment, segment_state::mapped);
  return done;
}

void arena::release(segment_index segment) noexcept {
  EBB_ASSERT(state(segment) == segment_state::unmapped);
  do_release(segment);
  enter(segment, segment_state::absent);
}

bool arena::is_mapped(std::uint64_t offset, std::uint64_t size) const noexcept {
  if (offset > layout_.full_bytes || size > layout_.full_bytes - offset) return false;
  if (size == 0) return true;
  const auto first = states_.begin() + layout_.holding(offset);
  const auto last = states_.begin() + layout_.holding(offset + size - 1);
  return std::all_of(first, last + 1, [](segment_state state) { return state == segment_state::mapped; });
}

result<void> arena::begin_copy_in(std::uint64_t offset, std::span<const std::byte> bytes) {
  EBB_ASSERT(is_mapped(offset, bytes.size()));
  copies_under_way_ = true;
  return do_begin_copy_in(offset, bytes);
}

result<void> arena::begin_copy_within(std::uint64_t from, std::uint64_t to, std::uint64_t size) {
  EBB_ASSERT(is_mapped(from, size));
  EBB_ASSERT(is_mapped(to, size));
  EBB_ASSERT(from + size <= to || to + size <= from);
  copies_under_way_ = true;
  return do_begin_copy_within(from, to, size);
}

result<void> arena::finish_copies() {
  copies_under_way_ = false;
  return do_finish_copies();
}

result<void> arena::copy_in(std::uint64_t offset, std::span<const std::byte> bytes) {
  const auto begun = begin_copy_in(offset, bytes);
  const auto finished = finish_copies();
  return begun ? finished : begun;
}

result<void> arena::copy_within(std::uint64_t from, std::uint64_t to, std::uint64_t size) {
  const auto begun = begin_copy_within(from, to, size);
  const auto finished = finish_copies();
  return begun ? finished : begun;
}

}  // namespace ebb::kernels

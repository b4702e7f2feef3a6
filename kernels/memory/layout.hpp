// kernels/memory/layout.hpp: how a cache's bytes are cut, once into segments (what is mapped) and once into slots (what is used).
//
// Both cuts start at byte 0 and are independent: a slot may lie across the border of two segments, and is usable once both are
// mapped. The last segment may be smaller, so that a cache is exactly as large as its slots.
#pragma once
#include "config/assert.hpp"
#include "config/ids.hpp"
#include <algorithm>
#include <cstdint>

namespace ebb::kernels {

// A segment's number, counted from 0 in the order of addresses.
using segment_index = std::uint32_t;

struct segment_layout {
  std::uint64_t segment_bytes = 0;  // > 0
  std::uint64_t full_bytes = 0;     // > 0; all segments together

  segment_index count() const noexcept { return static_cast<segment_index>((full_bytes + segment_bytes - 1) / segment_bytes); }
  std::uint64_t begin_of(segment_index segment) const noexcept { return segment * segment_bytes; }
  std::uint64_t end_of(segment_index segment) const noexcept { return std::min(begin_of(segment) + segment_bytes, full_bytes); }
  std::uint64_t size_of(segment_index segment) const noexcept { return end_of(segment) - begin_of(segment); }

  // The segment that holds the byte at `offset`. Pre: offset < full_bytes.
  segment_index holding(std::uint64_t offset) const noexcept { return static_cast<segment_index>(offset / segment_bytes); }

  // The largest / smallest border of segments that is not above / not below `bytes`; full_bytes is the last border.
  std::uint64_t round_down(std::uint64_t bytes) const noexcept {
    return bytes >= full_bytes ? full_bytes : bytes / segment_bytes * segment_bytes;
  }
  std::uint64_t round_up(std::uint64_t bytes) const noexcept {
    return bytes >= full_bytes ? full_bytes : std::min(full_bytes, (bytes + segment_bytes - 1) / segment_bytes * segment_bytes);
  }

  // Segments below a border. Pre: `border_bytes` is a border (asserts).
  segment_index segments_below(std::uint64_t border_bytes) const noexcept {
    EBB_ASSERT(round_down(border_bytes) == border_bytes);
    return border_bytes == full_bytes ? count() : static_cast<segment_index>(border_bytes / segment_bytes);
  }
};

// Slot i lies at [i * slot_bytes, (i + 1) * slot_bytes) of the arena.
class slot_layout {
 public:
  static constexpr std::uint64_t slot_alignment_bytes = 64;  // a cache line, and the widest load of any kernel

  // Pre: expert_bytes > 0 (asserts).
  explicit slot_layout(std::uint64_t expert_bytes) noexcept
      : slot_bytes_((expert_bytes + slot_alignment_bytes - 1) / slot_alignment_bytes * slot_alignment_bytes) {
    EBB_ASSERT(expert_bytes > 0);
  }

  std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }
  std::uint64_t offset_of(slot_id slot) const noexcept { return slot.value * slot_bytes_; }

  // Slots that lie wholly in the first `mapped_bytes`; a slot that is only partly mapped is none.
  std::uint32_t slots_in(std::uint64_t mapped_bytes) const noexcept { return static_cast<std::uint32_t>(mapped_bytes / slot_bytes_); }

  // What `slots` slots take: the full_bytes of a cache of that many.
  std::uint64_t bytes_of(std::uint32_t slots) const noexcept { return slots * slot_bytes_; }

 private:
  std::uint64_t slot_bytes_;
};

}  // namespace ebb::kernels

// actors/segment_floor.hpp: how large a cache may be, so that so much is free on its card.
//
// A cache is mapped from its first byte up to a border of segments. Of what the others on the card leave (mapped + free - wanted),
// the keep is the largest border that fits: rounded down, so that a need of 1 MiB frees a segment, and growth maps only whole
// segments that fit above the reserve. A shrink moves as much from mapped to free as a growth moves back, so the sum, and with it
// the plan, is the same before and after: the same command twice changes nothing.
#pragma once
#include "kernels/memory/layout.hpp"

namespace ebb::actors {

struct resize_inputs {
  std::uint64_t mapped_bytes = 0;
  std::uint64_t free_bytes = 0;                // the device's own figure
  std::uint64_t wanted_free_bytes = 0;         // the reserve, and whatever is asked for beyond it
  std::uint64_t floor_bytes = 0;               // the smallest cache that still works; rounded up to a border
  std::uint64_t ceiling_bytes = ~std::uint64_t{0};  // the most that may be mapped now; the floor wins over it
};

struct resize_plan {
  std::uint64_t keep_bytes = 0;   // what shall be mapped: below mapped_bytes is a shrink, above it a growth
  std::uint64_t short_bytes = 0;  // what will be missing of wanted_free_bytes, or lie above the ceiling, since the floor is kept
  friend bool operator==(const resize_plan&, const resize_plan&) = default;
};

resize_plan plan_resize(const kernels::segment_layout& layout, const resize_inputs& inputs) noexcept;

}  // namespace ebb::actors

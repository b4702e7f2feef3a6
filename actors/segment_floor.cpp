#include "actors/segment_floor.hpp"
#include <algorithm>

namespace ebb::actors {
namespace {

std::uint64_t minus(std::uint64_t a, std::uint64_t b) noexcept { return a > b ? a - b : 0; }

}  // namespace

resize_plan plan_resize(const kernels::segment_layout& layout, const resize_inputs& inputs) noexcept {
  const std::uint64_t together = inputs.mapped_bytes + inputs.free_bytes;
  const std::uint64_t fits = layout.round_down(std::min(minus(together, inputs.wanted_free_bytes), inputs.ceiling_bytes));
  const std::uint64_t keep = std::max(fits, layout.round_up(inputs.floor_bytes));
  return {keep, std::max(minus(inputs.wanted_free_bytes, minus(together, keep)), minus(keep, inputs.ceiling_bytes))};
}

}  // namespace ebb::actors

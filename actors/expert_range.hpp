// actors/expert_range.hpp: the experts of a stage, and their flat numbers 0, 1, ... in order of layer, then index.
#pragma once
#include "config/assert.hpp"
#include "config/ids.hpp"

namespace ebb::actors {

// Layers [layer_begin, layer_end), each with n_experts. Dense layers at a model's beginning are left out.
struct expert_range {
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;
  std::uint32_t n_experts = 0;

  std::uint32_t count() const noexcept { return (layer_end - layer_begin) * n_experts; }

  bool contains(expert_id expert) const noexcept {
    return expert.layer >= layer_begin && expert.layer < layer_end && expert.index < n_experts;
  }

  // Pre: contains(expert) (asserts).
  std::uint32_t number_of(expert_id expert) const noexcept {
    EBB_ASSERT(contains(expert));
    return (expert.layer - layer_begin) * n_experts + expert.index;
  }

  // Pre: number < count().
  expert_id at(std::uint32_t number) const noexcept { return {layer_begin + number / n_experts, number % n_experts}; }

  friend bool operator==(const expert_range&, const expert_range&) = default;
};

}  // namespace ebb::actors

// kernels/expert_entry.hpp: where an expert is to be read from, as the tables that a window reads hold it.
#pragma once
#include <array>
#include <cstddef>

namespace ebb::kernels {

inline constexpr std::size_t matrices_per_expert = 3;  // gate [d_ff, d_model], up [d_ff, d_model], down [d_model, d_ff]

struct expert_entry {
  std::array<const std::byte*, matrices_per_expert> matrix;
  bool in_slot;  // in the card's own memory; else in the store
};

}  // namespace ebb::kernels

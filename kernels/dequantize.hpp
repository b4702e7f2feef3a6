// kernels/dequantize.hpp: the values of a row, for embeddings and for oracles.
//
//   row: n_values values in `type`, a whole number of blocks -> y [n_values] float. The same code for every instruction set.
//   Each value is computed in float as kernels/format.hpp writes it (products first, then the sum), which golden data holds exactly.
// Pre: the format has kernels (asserts).
#pragma once
#include "kernels/format.hpp"
#include <cstddef>

namespace ebb::kernels {

void dequantize(format type, const std::byte* row, std::size_t n_values, float* y) noexcept;

}  // namespace ebb::kernels

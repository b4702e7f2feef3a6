// kernels/activations.hpp: rows of activations as every product reads them, and their quantisation.
//
// A row that meets quantised weights is quantised once, in blocks of 32 (docs/ARITHMETIC.md):
//   d = amax / 127, but 0 where that is below 2^-126 (a subnormal d would be too coarse to keep q within 127)
//   q = rint(u / d), ties to even; 0 where d is 0    sum = sum of the block's q
// and, where 8 bits are too few, what that left over is quantised once more in the same way: the residual fmaf(-d, q, u).
// Rows that meet float weights are read as floats.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ebb::kernels {

inline constexpr std::uint32_t activation_block = 32;

// Non-owning; row-major.
struct quantised_rows {
  const std::int8_t* q = nullptr;     // [n_rows, n_cols], in [-127, 127]
  const float* d = nullptr;           // [n_rows, n_cols / 32], >= 0
  const std::int32_t* sum = nullptr;  // [n_rows, n_cols / 32]
};

// Non-owning. n_cols % 32 == 0 where the parts are used.
struct activations {
  const float* x = nullptr;  // [n_rows, n_cols], or null when only quantised weights read them
  quantised_rows part[2];    // the rows quantised, and their residuals, or nulls
  std::uint32_t n_cols = 0;

  std::uint32_t n_parts() const noexcept { return part[1].q == nullptr ? 1 : 2; }
};

// Quantises n_values = 32 * k consecutive values of x into q [n_values], d [k], sum [k]. A non-finite input is a caller's bug.
using quantize_fn = void (*)(const float* x, std::size_t n_values, std::int8_t* q, float* d, std::int32_t* sum);


// r [n_values] = what quantising left over: fmaf(-d, q, x). r may be x. n_values = 32 * k.
using residual_fn = void (*)(const float* x, const std::int8_t* q, const float* d, std::size_t n_values, float* r);

}  // namespace ebb::kernels

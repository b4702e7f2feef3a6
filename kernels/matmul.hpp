// kernels/matmul.hpp: y[y_row[i], r] = sum over c of weight[r, c] * x[x_row[i], c], for i in [0, n) and r in [row_begin, row_end)
//
//   weight [n_rows, n_cols] row-major in `type`, as in the file      x: activations with the same n_cols
//   y [.., y_stride] float, elements named above overwritten, nothing else touched
//
// The order of sums is fixed (docs/ARITHMETIC.md), so a result depends on neither n, nor the range of rows, nor the instruction set:
//   quantised weights: block b of 32 goes to lane b mod 8 by fmaf(float(isum), dw * dx, lane), b ascending; a minimum by a second
//     fmaf(-float(xsum * min), dmin * dx, lane) (K-quants) or fmaf(float(xsum), m * dx, lane) (Q4_1, Q5_1) right after it;
//     isum is exact in int32. K-quants: isum * scale, dw = d. Q6_K has two scales a block: isum = s0 * isum0 + s1 * isum1.
//     Activations with residuals do all this twice for each block, into the same lane: first the quantised part, then the residual.
//   float weights: element c goes to lane c mod 8 by fmaf(w, x, lane), c ascending.
//   The lanes are added as ((0+4)+(2+6)) + ((1+5)+(3+7)).
#pragma once
#include "kernels/activations.hpp"
#include "kernels/format.hpp"

namespace ebb::kernels {

// Non-owning; the caller keeps the bytes alive. No alignment is assumed beyond one byte.
struct weights {
  const std::byte* data = nullptr;
  format type = format::f32;
  std::uint32_t n_rows = 0;  // outputs
  std::uint32_t n_cols = 0;  // inputs; a multiple of the format's values_per_block
  std::size_t row_bytes() const noexcept { return bytes_of(type, n_cols); }
};

struct matmul_job {
  weights w;
  activations x;
  const std::uint32_t* x_row = nullptr;  // [n], or null for i itself
  const std::uint32_t* y_row = nullptr;  // [n], or null for i itself
  std::uint32_t n = 0;                   // rows of activations
  std::uint32_t row_begin = 0;           // rows of the weight, [row_begin, row_end)
  std::uint32_t row_end = 0;
  float* y = nullptr;
  std::size_t y_stride = 0;              // floats from one row of y to the next
};
using matmul_fn = void (*)(const matmul_job& job);

}  // namespace ebb::kernels

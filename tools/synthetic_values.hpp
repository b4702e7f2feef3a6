// tools/synthetic_values.hpp: random weights, as blocks of every format that has kernels.
//
// The bits of the quants are drawn; the factors around them are chosen so that the values have a given deviation and a mean of 0:
//   Q4_K, Q5_K        x = d s (q - c): the minimum has the bits of the scale s, 32 to 63, and dmin = c d, c the mean of q (7.5, 15.5)
//   Q6_K              x = d s q, s of 64 to 127 and of either sign
//   Q4_1, Q5_1        x = d (q - c), m = -c d
//   Q8_0, Q4_0, Q5_0  x = d q, of either sign a block where the q of the format are not even around 0
//   F32, F16, BF16    evenly spread
// So deviations are exact but for the rounding of d to a half, 1/2048.
#pragma once
#include "kernels/format.hpp"
#include "tools/counted_random.hpp"
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ebb::tools {

// What the values of a tensor are like.
struct value_spread {
  float mean = 0;                  // other than 0 only for F32
  float deviation = 1;
  std::vector<float> row_factors;  // of the deviation, one a row, and only for F32; empty: 1
};

// Fills `out`, whole blocks of the tensor that begin at its value `first`. Pre: the format has kernels.
void draw_values(kernels::format format, const value_spread& spread, std::uint64_t first, std::uint64_t n_cols, counted_random& random,
                 std::span<std::byte> out);

}  // namespace ebb::tools

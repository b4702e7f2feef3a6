// kernels/cuda/matmul.hpp: products of quantised weights with many rows of activations, by the integer matrix units.
//
//   y[y_row[i], r] (+)= sum over c of weight[r, c] * x[x_row[i], c]        kernels/matmul.hpp has the order of sums
//
// A product of 32 values of a weight and 32 of an activation is one exact integer sum, which is what a step of mma.m16n8k32 gives for 16 x 8
// of them at once. Each of a block's eight warps is one lane: warp l takes sub-blocks l, l + 8, ..., so that a lane's sum stays in
// registers and in order; the tree over the lanes goes through shared memory at the end.
//
// Work:   a block computes matmul_tile_rows weights' rows times matmul_tile_columns rows of activations.
// Bound:  the float steps after each integer sum: 4 to 8 operations for 32 products.
#pragma once
#include "kernels/cuda/matvec.hpp"

namespace ebb::kernels::cuda {

inline constexpr unsigned matmul_tile_rows = 32, matmul_tile_columns = 32;

// At most matmul_tile_columns places of x_row and y_row, which meet the same weights.
struct matmul_tile {
  const std::uint8_t* weights;
  std::uint32_t first, n;
};

struct matmul_arguments {
  device_weights w;                      // data is not read where there are tiles
  activation_buffer x;
  const matmul_tile* tiles = nullptr;    // [n_tiles], in device memory; null: one matrix, places 0 .. n - 1
  std::uint32_t n_tiles = 0;
  const std::uint32_t* x_row = nullptr;  // [places], or null for the place itself
  const std::uint32_t* y_row = nullptr;
  std::uint32_t n = 0;                   // places, where there are no tiles
  float* y = nullptr;                    // [.., w.n_rows]
  bool add = false;                      // y + the product, rounded once more
};

// Pre: at least one place; w.n_cols == x.n_cols (asserts). Float weights are multiplied without the matrix units.
void matmul(const matmul_arguments& what, cudaStream_t stream);

}  // namespace ebb::kernels::cuda

// kernels/cuda/places.cuh: which rows of activations a block of a product with many rows is for, and which weights they meet.
#pragma once
#include "kernels/cuda/matmul.hpp"

namespace ebb::kernels::cuda {

struct place_range {
  const std::uint8_t* weights;
  std::uint32_t first, n;
};

__device__ inline place_range places_of(const matmul_arguments& what) {
  if (what.tiles != nullptr) {
    const matmul_tile tile = what.tiles[blockIdx.y];
    return {tile.weights, tile.first, tile.n};
  }
  const std::uint32_t first = blockIdx.y * matmul_tile_columns;
  return {what.w.data, first, min(what.n - first, matmul_tile_columns)};
}

}  // namespace ebb::kernels::cuda

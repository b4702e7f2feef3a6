// kernels/cuda/float_matmul.cuh: products with float weights, a tile of weights' rows times a tile of rows of activations.
//
// Eight threads are the eight lanes of each of their Rows x Columns outputs; a block has 32 such groups, GroupRows of them along the weights. Weights
// and activations pass through shared memory, some columns at a time; a lane's sum stays in a register, in order.
#pragma once
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matvec.cuh"
#include "kernels/cuda/places.cuh"

namespace ebb::kernels::cuda {

inline constexpr std::uint32_t float_pad = 8;  // floats between rows in shared memory, so that the groups of a warp meet different banks

// Four neighbouring weights as floats; c is a multiple of 4, and a row begins at a multiple of 4 values.
template <format Type>
__device__ inline float4 four_weights(const std::uint8_t* row, std::uint32_t c) {
  if constexpr (Type == format::f32) {
    return __ldg(reinterpret_cast<const float4*>(row) + c / 4);
  } else {
    const uint2 two = __ldg(reinterpret_cast<const uint2*>(row) + c / 4);
    const auto as_float = [](std::uint32_t half) {
      if constexpr (Type == format::f16) return half_as_float(static_cast<std::uint16_t>(half));
      else return bf16_as_float(static_cast<std::uint16_t>(half));
    };
    return {as_float(two.x & 0xffffu), as_float(two.x >> 16), as_float(two.y & 0xffffu), as_float(two.y >> 16)};
  }
}

template <format Type, unsigned GroupRows, unsigned Rows, unsigned Columns>
__global__ void __launch_bounds__(256) float_matmul_kernel(matmul_arguments what, std::uint32_t stage_columns) {
  begin_kernel();
  constexpr unsigned group_columns = 32 / GroupRows, tile_rows = GroupRows * Rows, tile_columns = group_columns * Columns;
  extern __shared__ float staged[];  // [tile_rows + tile_columns, stage_columns + float_pad]
  const place_range places = places_of(what);
  const std::uint32_t first_row = blockIdx.x * tile_rows, n_cols = what.x.n_cols, stride = stage_columns + float_pad;
  const unsigned l = threadIdx.x % 8, group = threadIdx.x / 8, row = group % GroupRows, column = group / GroupRows;
  const unsigned used_columns = min(places.n, tile_columns);
  float sums[Rows][Columns] = {};
  for (std::uint32_t begin = 0; begin < n_cols; begin += stage_columns) {
    const std::uint32_t n = min(stage_columns, n_cols - begin);
    // Four values at a time, and several of them on their way at once. n is a multiple of 32.
    const std::uint32_t per_row = n / 4, n_rows = tile_rows + used_columns;
    const std::uint32_t rows_at_once = max(blockDim.x / per_row, 1u), lines = min(per_row, blockDim.x);
    const std::uint32_t r_of = threadIdx.x / lines, c_of = threadIdx.x % lines;
#pragma unroll 8
    for (std::uint32_t r = r_of; r < n_rows; r += rows_at_once) {
      if (r_of >= rows_at_once) break;
      for (std::uint32_t c = c_of; c < per_row; c += lines) {
        float4 four;
        if (r < tile_rows) {
          four = four_weights<Type>(places.weights + std::size_t{min(first_row + r, what.w.n_rows - 1)} * row_bytes<Type>(n_cols), begin + c * 4);
        } else {
          const std::uint32_t place = places.first + r - tile_rows;
          const std::uint32_t x_row = what.x_row != nullptr ? __ldg(what.x_row + place) : place;
          four = __ldg(reinterpret_cast<const float4*>(what.x.x + std::size_t{x_row} * n_cols + begin) + c);
        }
        *reinterpret_cast<float4*>(&staged[r * stride + c * 4]) = four;
      }
    }
    __syncthreads();
#pragma unroll 8
    for (std::uint32_t c = l; c < n; c += 8) {
      float w[Rows], x[Columns];
#pragma unroll
      for (unsigned i = 0; i < Rows; ++i) w[i] = staged[(row + i * GroupRows) * stride + c];
#pragma unroll
      for (unsigned j = 0; j < Columns; ++j) x[j] = staged[(tile_rows + min(column + j * group_columns, used_columns - 1)) * stride + c];
#pragma unroll
      for (unsigned i = 0; i < Rows; ++i) {
#pragma unroll
        for (unsigned j = 0; j < Columns; ++j) sums[i][j] = __fmaf_rn(w[i], x[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (unsigned i = 0; i < Rows; ++i) {
#pragma unroll
    for (unsigned j = 0; j < Columns; ++j) {
      const float y = lane_sum(sums[i][j]);
      const std::uint32_t r = first_row + row + i * GroupRows, place = column + j * group_columns;
      if (l != 0 || r >= what.w.n_rows || place >= used_columns) continue;
      const std::uint32_t y_row = what.y_row != nullptr ? what.y_row[places.first + place] : places.first + place;
      float* to = what.y + std::size_t{y_row} * what.w.n_rows + r;
      *to = what.add ? __fadd_rn(*to, y) : y;
    }
  }
}

// A grid of matmul_tile_rows by matmul_tile_columns.
template <format Type>
void float_matmul_many(const matmul_arguments& what, dim3 grid, cudaStream_t stream) {
  constexpr std::uint32_t stage_columns = 128;
  constexpr std::size_t shared_bytes = (matmul_tile_rows + matmul_tile_columns) * (stage_columns + float_pad) * sizeof(float);
  static_assert(shared_bytes <= 48 * 1024);
  launch_kernel(float_matmul_kernel<Type, 8, matmul_tile_rows / 8, matmul_tile_columns / 4>, grid, 256, shared_bytes, stream, what, stage_columns);
}

}  // namespace ebb::kernels::cuda

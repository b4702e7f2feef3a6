#include "config/assert.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/cuda/matvec.cuh"

namespace ebb::kernels::cuda {
namespace {

constexpr unsigned m_tiles = matmul_tile_rows / 16, n_tiles = matmul_tile_columns / 8;
constexpr unsigned column_stride = matmul_tile_rows + 4;  // so that a warp's writes meet 32 banks

// c = a (16 x 32, row-major) times b (32 x 8, by columns): signed bytes, exact sums.
__device__ inline void multiply_32(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], int (&c)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
}

// The same over 16 values.
__device__ inline void multiply_16(std::uint32_t a_low, std::uint32_t a_high, std::uint32_t b, int (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a_low), "r"(a_high), "r"(b), "r"(0));
}

// What a warp needs of its 32 rows of activations for one sub-block, so that each thread finds those of its columns.
struct column_factors {
  float d[2][matmul_tile_columns];
  int sum[2][matmul_tile_columns];
};

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

template <format Type>
__global__ void __launch_bounds__(256, 2) matmul_kernel(matmul_arguments what) {
  using stored = block<Type>;
  __shared__ column_factors factors[8];
  __shared__ float lane_of[8][matmul_tile_columns * column_stride];
  const place_range places = places_of(what);
  const unsigned l = threadIdx.x / 32, thread = threadIdx.x % 32, g = thread / 4, t = thread % 4;
  const std::uint32_t n_blocks = what.x.n_cols / 32, first_row = blockIdx.x * matmul_tile_rows;
  const unsigned used_tiles = (places.n + 7) / 8;
  const auto x_row_of = [&](std::uint32_t place) {
    const std::uint32_t known = places.first + min(place, places.n - 1);  // beyond the last: computed again, and not stored
    return what.x_row != nullptr ? __ldg(what.x_row + known) : known;
  };

  const std::uint8_t* weight_row[m_tiles][2];
#pragma unroll
  for (unsigned m = 0; m < m_tiles; ++m) {
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      const std::uint32_t row = min(first_row + m * 16 + h * 8 + g, what.w.n_rows - 1);
      weight_row[m][h] = places.weights + std::size_t{row} * row_bytes<Type>(what.x.n_cols);
    }
  }
  std::uint32_t x_at[n_tiles];  // the block's number of column g of each tile
#pragma unroll
  for (unsigned n = 0; n < n_tiles; ++n) x_at[n] = x_row_of(n * 8 + g) * n_blocks;
  const std::uint32_t my_column = x_row_of(thread) * n_blocks;

  float sums[m_tiles][n_tiles][4] = {};
  for (std::uint32_t b = l; b < n_blocks; b += 8) {
    std::uint32_t a[m_tiles][4];
    block_head head[m_tiles][2];
#pragma unroll
    for (unsigned m = 0; m < m_tiles; ++m) {
#pragma unroll
      for (unsigned h = 0; h < 2; ++h) {
        const std::uint8_t* at = weight_row[m][h] + std::size_t{b / stored::sub_blocks} * stored::bytes;
        a[m][h] = stored::word(at, b % stored::sub_blocks, t);
        a[m][h + 2] = stored::word(at, b % stored::sub_blocks, t + 4);
        head[m][h] = stored::head(at, b % stored::sub_blocks);
      }
    }
    std::uint32_t x[2][n_tiles][2];
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
#pragma unroll
      for (unsigned n = 0; n < n_tiles; ++n) {
        const auto* q = reinterpret_cast<const std::uint32_t*>(what.x.part[p].q + (std::size_t{x_at[n]} + b) * 32);
        x[p][n][0] = __ldg(q + t);
        x[p][n][1] = __ldg(q + t + 4);
      }
      factors[l].d[p][thread] = __ldg(what.x.part[p].d + my_column + b);
      factors[l].sum[p][thread] = __ldg(what.x.part[p].sum + my_column + b);
    }
    __syncwarp();
#pragma unroll
    for (unsigned n = 0; n < n_tiles; ++n) {
      if (n >= used_tiles) break;
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        const float2 dx = *reinterpret_cast<const float2*>(&factors[l].d[p][n * 8 + 2 * t]);
        const int2 xsum = *reinterpret_cast<const int2*>(&factors[l].sum[p][n * 8 + 2 * t]);
#pragma unroll
        for (unsigned m = 0; m < m_tiles; ++m) {
          int dot[4], dot_high[4] = {};
          if constexpr (stored::rule == lane_rule::split) {
            multiply_16(a[m][0], a[m][1], x[p][n][0], dot);
            multiply_16(a[m][2], a[m][3], x[p][n][1], dot_high);
          } else {
            multiply_32(a[m], x[p][n], dot);
          }
#pragma unroll
          for (unsigned i = 0; i < 4; ++i) {
            sums[m][n][i] = lane_after<Type>(head[m][i / 2], dot[i], dot_high[i], i % 2 == 0 ? dx.x : dx.y, i % 2 == 0 ? xsum.x : xsum.y, sums[m][n][i]);
          }
        }
      }
    }
    __syncwarp();
  }

#pragma unroll
  for (unsigned m = 0; m < m_tiles; ++m) {
#pragma unroll
    for (unsigned n = 0; n < n_tiles; ++n) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        lane_of[l][(n * 8 + 2 * t + i % 2) * column_stride + m * 16 + i / 2 * 8 + g] = sums[m][n][i];
      }
    }
  }
  __syncthreads();
  const std::uint32_t row = first_row + thread;
  if (row >= what.w.n_rows) return;
  for (unsigned column = l; column < places.n; column += 8) {
    float lane[8];
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) lane[i] = lane_of[i][column * column_stride + thread];
    const std::uint32_t place = places.first + column;
    float* to = what.y + std::size_t{what.y_row != nullptr ? what.y_row[place] : place} * what.w.n_rows + row;
    *to = what.add ? __fadd_rn(*to, lane_sum(lane)) : lane_sum(lane);
  }
}

// Float weights: eight threads a row of weights, a few rows of activations at a time.
template <format Type>
__global__ void float_matmul_kernel(matmul_arguments what) {
  constexpr unsigned at_once = 4;
  const place_range places = places_of(what);
  const std::uint32_t r = blockIdx.x * matmul_tile_rows + threadIdx.x / 8;
  const unsigned l = threadIdx.x % 8;
  const bool exists = r < what.w.n_rows;
  const std::uint8_t* row = places.weights + std::size_t{exists ? r : 0} * row_bytes<Type>(what.x.n_cols);
  for (std::uint32_t begin = 0; begin < places.n; begin += at_once) {
    float sums[at_once] = {};
    const float* x[at_once];
#pragma unroll
    for (unsigned i = 0; i < at_once; ++i) {
      const std::uint32_t place = places.first + min(begin + i, places.n - 1);
      x[i] = what.x.x + std::size_t{what.x_row != nullptr ? what.x_row[place] : place} * what.x.n_cols;
    }
#pragma unroll 4
    for (std::uint32_t c = l; c < what.x.n_cols; c += 8) {
      const float w = float_weight<Type>(row, c);
#pragma unroll
      for (unsigned i = 0; i < at_once; ++i) sums[i] = __fmaf_rn(w, __ldg(x[i] + c), sums[i]);
    }
#pragma unroll
    for (unsigned i = 0; i < at_once; ++i) {
      const float y = lane_sum(sums[i]);
      if (!exists || l != 0 || begin + i >= places.n) continue;
      const std::uint32_t place = places.first + begin + i;
      float* to = what.y + std::size_t{what.y_row != nullptr ? what.y_row[place] : place} * what.w.n_rows + r;
      *to = what.add ? __fadd_rn(*to, y) : y;
    }
  }
}

}  // namespace

void matmul(const matmul_arguments& what, cudaStream_t stream) {
  EBB_ASSERT(what.w.n_cols == what.x.n_cols);
  const std::uint32_t columns = what.tiles != nullptr ? what.n_tiles : (what.n + matmul_tile_columns - 1) / matmul_tile_columns;
  EBB_ASSERT(columns > 0);
  const dim3 grid((what.w.n_rows + matmul_tile_rows - 1) / matmul_tile_rows, columns);
  with_format(what.w.type, [&]<format Type>() {
    if constexpr (is_float(Type)) float_matmul_kernel<Type><<<grid, 256, 0, stream>>>(what);
    else matmul_kernel<Type><<<grid, 256, 0, stream>>>(what);
  });
}

}  // namespace ebb::kernels::cuda

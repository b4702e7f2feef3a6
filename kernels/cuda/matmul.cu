#include "config/assert.hpp"
#include "kernels/cuda/float_matmul.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul.hpp"
#include "kernels/cuda/matvec.cuh"
#include "kernels/cuda/places.cuh"

namespace ebb::kernels::cuda {
namespace {

constexpr unsigned m_tiles = matmul_tile_rows / 16, n_tiles = matmul_tile_columns / 8;
constexpr unsigned column_stride = matmul_tile_rows + 4;  // so that a warp's writes meet 32 banks

// c = a (16 x 32, row-major) times b (32 x 8, by columns): signed bytes, exact sums that start from `magic`.
__device__ inline void multiply_32(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], int (&c)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(magic));
}

// The same over 16 values.
__device__ inline void multiply_16(std::uint32_t a_low, std::uint32_t a_high, std::uint32_t b, int (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a_low), "r"(a_high), "r"(b), "r"(magic));
}

// What a block stages of eight neighbouring sub-blocks, one a lane: the weights as they are stored, from the last border of 16 bytes before
// them on, and the activations. Strides are such that the reads of a warp meet 32 banks.
template <format Type>
struct staged_blocks {
  static constexpr unsigned weight_bytes = block<Type>::bytes * (8 / block<Type>::sub_blocks);
  static constexpr bool aligned = weight_bytes % 16 == 0 && block<Type>::sub_blocks == 8;  // every step begins at a multiple of 16
  static constexpr unsigned weight_chunks = aligned ? weight_bytes / 16 : (weight_bytes + 14 + 15) / 16;  // of 16 bytes, at most
  static constexpr unsigned weight_stride = weight_chunks * 16 + (weight_chunks % 2 == 0 ? 16 : 0);
  static constexpr unsigned q_stride = 256 + 16;
  static constexpr unsigned factor_stride = 12;  // floats, of which 8 are used

  std::uint8_t weights[matmul_tile_rows * weight_stride];
  std::int8_t q[2][matmul_tile_columns * q_stride];
  float d[2][matmul_tile_columns * factor_stride];
  std::int32_t sum[2][matmul_tile_columns * factor_stride];
};

constexpr unsigned stages = 3;  // two are on their way while one is computed

template <format Type>
union block_memory {
  staged_blocks<Type> staged[stages];
  float lane_of[8][matmul_tile_columns * column_stride];
};

// `to` is in shared memory.
__device__ inline void copy_4_async(void* to, const void* from) {
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(from) : "memory");
}
__device__ inline void copy_16_async(void* to, const void* from) {
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
}

template <format Type>
__global__ void __launch_bounds__(256, 2) matmul_kernel(matmul_arguments what) {
  begin_kernel();
  using stored = block<Type>;
  using staging = staged_blocks<Type>;
  extern __shared__ __align__(16) std::uint8_t shared[];
  auto& memory = *reinterpret_cast<block_memory<Type>*>(shared);
  const place_range places = places_of(what);
  const unsigned l = threadIdx.x / 32, thread = threadIdx.x % 32, g = thread / 4, t = thread % 4;
  const std::uint32_t n_blocks = what.x.n_cols / 32, n_steps = (n_blocks + 7) / 8, first_row = blockIdx.x * matmul_tile_rows;
  const std::size_t weights_row = row_bytes<Type>(what.x.n_cols);
  const unsigned used_tiles = (places.n + 7) / 8;

  // What each thread stages, the same at every step but for where it begins: pieces of 16 bytes of the weights and of both parts' q, and one
  // piece of four d or sums.
  constexpr unsigned weight_pieces = (matmul_tile_rows * staging::weight_chunks + 255) / 256;
  const std::uint8_t* weight_from[weight_pieces];
  unsigned weight_to[weight_pieces];
#pragma unroll
  for (unsigned i = 0; i < weight_pieces; ++i) {
    const unsigned piece = threadIdx.x + i * 256, row = piece / staging::weight_chunks;
    weight_from[i] = places.weights + std::size_t{min(first_row + row, what.w.n_rows - 1)} * weights_row;
    weight_to[i] = row < matmul_tile_rows ? row * staging::weight_stride : ~0u;
  }
  const auto x_row_of = [&](unsigned column) {
    const std::uint32_t place = places.first + min(column, places.n - 1);  // beyond the last: computed again, and not stored
    return std::size_t{what.x_row != nullptr ? __ldg(what.x_row + place) : place};
  };
  const unsigned q_part = threadIdx.x / 16 % 2, q_chunk = threadIdx.x % 16, q_column = threadIdx.x / 32;  // and every 8th column on
  std::size_t q_from[4];
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) q_from[i] = x_row_of(q_column + i * 8) * what.x.n_cols + q_chunk * 16;
  const std::int8_t* const q_base = what.x.part[q_part].q;
  const unsigned f_column = threadIdx.x / 8, f_part = threadIdx.x / 4 % 2, f_kind = threadIdx.x / 2 % 2, f_chunk = threadIdx.x % 2;
  const quantised_buffer& f_rows = what.x.part[f_part];
  const char* const f_from = (f_kind == 0 ? reinterpret_cast<const char*>(f_rows.d) : reinterpret_cast<const char*>(f_rows.sum)) +
                             (x_row_of(f_column) * n_blocks + f_chunk * 4) * 4;
  const bool f_aligned = n_blocks % 4 == 0;

  const auto stage = [&](std::uint32_t step) {
    staging& to = memory.staged[step % stages];
    const std::size_t begin = std::size_t{step} * staging::weight_bytes;
#pragma unroll
    for (unsigned i = 0; i < weight_pieces; ++i) {
      if (weight_to[i] == ~0u) continue;
      const unsigned chunk = (threadIdx.x + i * 256) % staging::weight_chunks;
      const std::uint8_t* from = weight_from[i] + begin;
      if constexpr (staging::aligned) {
        copy_16_async(&to.weights[weight_to[i] + chunk * 16], from + chunk * 16);
      } else {
        const auto skipped = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % 16);
        const auto n_bytes = static_cast<unsigned>(min(static_cast<std::size_t>(staging::weight_bytes), weights_row - begin));
        if (chunk * 16 < skipped + n_bytes) copy_16_async(&to.weights[weight_to[i] + chunk * 16], from - skipped + chunk * 16);
      }
    }
    if (step * 8 + q_chunk / 2 < n_blocks) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        if (i < used_tiles) copy_16_async(&to.q[q_part][(q_column + i * 8) * staging::q_stride + q_chunk * 16], q_base + q_from[i] + step * 256);
      }
    }
    if (f_column < used_tiles * 8) {
      void* into = f_kind == 0 ? static_cast<void*>(&to.d[f_part][f_column * staging::factor_stride + f_chunk * 4])
                               : static_cast<void*>(&to.sum[f_part][f_column * staging::factor_stride + f_chunk * 4]);
      const char* from = f_from + step * 32;
      if (f_aligned) {
        if (step * 8 + f_chunk * 4 < n_blocks) copy_16_async(into, from);
      } else {
        for (unsigned k = 0; k < 4 && step * 8 + f_chunk * 4 + k < n_blocks; ++k) copy_4_async(static_cast<char*>(into) + k * 4, from + k * 4);
      }
    }
  };
  const auto end_of_stage = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };

  float sums[m_tiles][n_tiles][4] = {};
#pragma unroll
  for (unsigned step = 0; step < stages - 1; ++step) {
    if (step < n_steps) stage(step);
    end_of_stage();
  }
  for (std::uint32_t step = 0; step < n_steps; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory");
    __syncthreads();
    if (step + stages - 1 < n_steps) stage(step + stages - 1);
    end_of_stage();
    if (step * 8 + l >= n_blocks) continue;
    const staging& from = memory.staged[step % stages];
    std::uint32_t a[m_tiles][4];
    block_head head[m_tiles][2];
#pragma unroll
    for (unsigned m = 0; m < m_tiles; ++m) {
#pragma unroll
      for (unsigned h = 0; h < 2; ++h) {
        const unsigned row = m * 16 + h * 8 + g;
        const std::size_t begin = std::size_t{min(first_row + row, what.w.n_rows - 1)} * weights_row + std::size_t{step} * staging::weight_bytes;
        const unsigned skipped = staging::aligned ? 0 : static_cast<unsigned>((reinterpret_cast<std::uintptr_t>(places.weights) + begin) % 16);
        const std::uint8_t* at = &from.weights[row * staging::weight_stride + skipped] + (stored::sub_blocks == 8 ? 0 : l * stored::bytes);
        const unsigned j = stored::sub_blocks == 8 ? l : 0;
        a[m][h] = stored::word(at, j, t);
        a[m][h + 2] = stored::word(at, j, t + 4);
        head[m][h] = stored::head(at, j);
      }
    }
#pragma unroll
    for (unsigned n = 0; n < n_tiles; ++n) {
      if (n >= used_tiles) break;
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        const auto* q = reinterpret_cast<const std::uint32_t*>(&from.q[p][(n * 8 + g) * staging::q_stride + l * 32]);
        const std::uint32_t x[2] = {q[t], q[t + 4]};
        const float dx[2] = {from.d[p][(n * 8 + 2 * t) * staging::factor_stride + l], from.d[p][(n * 8 + 2 * t + 1) * staging::factor_stride + l]};
        const float xsum[2] = {exact_float(from.sum[p][(n * 8 + 2 * t) * staging::factor_stride + l]),
                               exact_float(from.sum[p][(n * 8 + 2 * t + 1) * staging::factor_stride + l])};
#pragma unroll
        for (unsigned m = 0; m < m_tiles; ++m) {
          int dot[4], dot_high[4] = {};
          if constexpr (stored::rule == lane_rule::split) {
            multiply_16(a[m][0], a[m][1], x[0], dot);
            multiply_16(a[m][2], a[m][3], x[1], dot_high);
          } else {
            multiply_32(a[m], x, dot);
          }
#pragma unroll
          for (unsigned i = 0; i < 4; ++i) {
            const lane_step met = step_of<Type>(head[m][i / 2], __int_as_float(dot[i]), __int_as_float(dot_high[i]), dx[i % 2], xsum[i % 2]);
            sums[m][n][i] = after<Type>(met, sums[m][n][i]);
          }
        }
      }
    }
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  auto& lane_of = memory.lane_of;

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

template <format Type>
void launch(const matmul_arguments& what, dim3 grid, cudaStream_t stream) {
  constexpr int shared_bytes = sizeof(block_memory<Type>);
  static_assert(shared_bytes <= 112 * 1024, "two blocks share a multiprocessor");
  cudaFuncSetAttribute(matmul_kernel<Type>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);  // of the current device; a lookup after the first time
  launch_kernel(matmul_kernel<Type>, grid, 256, shared_bytes, stream, what);
}

}  // namespace

void matmul(const matmul_arguments& what, cudaStream_t stream) {
  EBB_ASSERT(what.w.n_cols == what.x.n_cols);
  const std::uint32_t columns = what.tiles != nullptr ? what.n_tiles : (what.n + matmul_tile_columns - 1) / matmul_tile_columns;
  EBB_ASSERT(columns > 0);
  const dim3 grid((what.w.n_rows + matmul_tile_rows - 1) / matmul_tile_rows, columns);
  with_format(what.w.type, [&]<format Type>() {
    if constexpr (is_float(Type)) float_matmul_many<Type>(what, grid, stream);
    else launch<Type>(what, grid, stream);
  });
}

}  // namespace ebb::kernels::cuda

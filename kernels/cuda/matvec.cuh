// kernels/cuda/matvec.cuh: rows of quantised weights times a few rows of activations, by a warp; shared by the kernels of few rows.
#pragma once
#include "config/assert.hpp"
#include "kernels/cuda/activations.hpp"
#include "kernels/cuda/blocks.cuh"

namespace ebb::kernels::cuda {

__host__ __device__ constexpr bool is_float(format type) { return type == format::f32 || type == format::f16 || type == format::bf16; }

template <format Type>
__host__ __device__ constexpr std::size_t row_bytes(std::uint32_t n_cols) {
  if constexpr (Type == format::f32) return std::size_t{n_cols} * 4;
  else if constexpr (is_float(Type)) return std::size_t{n_cols} * 2;
  else return std::size_t{n_cols / 32 / block<Type>::sub_blocks} * block<Type>::bytes;
}

template <format Type>
__device__ inline float float_weight(const std::uint8_t* row, std::uint32_t c) {
  if constexpr (Type == format::f32) return __ldg(reinterpret_cast<const float*>(row) + c);
  else if constexpr (Type == format::f16) return half_as_float(__ldg(reinterpret_cast<const std::uint16_t*>(row) + c));
  else return bf16_as_float(__ldg(reinterpret_cast<const std::uint16_t*>(row) + c));
}

// y[m][i] = row[m] times row first_row + i of x, for i < n; held by threads 24 to 31 of the warp.
//
// Thread t computes the integer sums of sub-blocks t, t + 32, ..., all at once. A lane's four of each 32 lie in threads 8 apart, and its sum goes
// from one to the next of them by shuffles, in ascending order, as the definition has it.
template <format Type, unsigned M, unsigned N>
__device__ inline void multiply_rows(const std::uint8_t* const (&row)[M], const activation_buffer& x, std::uint32_t first_row, std::uint32_t n,
                                     float (&y)[M][N]) {
  using stored = block<Type>;
  const unsigned thread = threadIdx.x % 32, from = (thread + 24) % 32;
  const std::uint32_t n_blocks = x.n_cols / 32;
  const bool twice = x.part[1].q != nullptr;
#pragma unroll
  for (unsigned m = 0; m < M; ++m) {
#pragma unroll
    for (unsigned i = 0; i < N; ++i) y[m][i] = 0.0f;
  }
#pragma unroll(N == 1 ? 2 : 1)
  for (std::uint32_t begin = 0; begin < n_blocks; begin += 32) {
    const bool exists = begin + thread < n_blocks;
    const std::uint32_t b = exists ? begin + thread : n_blocks - 1;
    std::uint32_t w[M][8];
    block_head head[M];
#pragma unroll
    for (unsigned m = 0; m < M; ++m) {
      const std::uint8_t* at = row[m] + std::size_t{b / stored::sub_blocks} * stored::bytes;
      load_words<Type>(at, b % stored::sub_blocks, w[m]);
      head[m] = stored::head(at, b % stored::sub_blocks);
    }
#pragma unroll
    for (unsigned i = 0; i < N; ++i) {
      if (N > 1 && i >= n) break;
      const std::size_t met = (std::size_t{first_row} + i) * n_blocks + b;
      lane_step step[M][2];
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        if (p == 1 && !twice) break;
        const float dx = __ldg(x.part[p].d + met), xsum = exact_float(__ldg(x.part[p].sum + met));
#pragma unroll
        for (unsigned m = 0; m < M; ++m) {
          const block_dot sums = dot<Type>(w[m], x.part[p].q + met * 32);
          step[m][p] = step_of<Type>(head[m], sums.low, sums.high, dx, xsum);
        }
      }
#pragma unroll
      for (unsigned turn = 0; turn < 4; ++turn) {
#pragma unroll
        for (unsigned m = 0; m < M; ++m) {
          const float before = __shfl_sync(0xffffffffu, y[m][i], from);
          float lane = after<Type>(step[m][0], before);
          if (twice) lane = after<Type>(step[m][1], lane);
          if (thread / 8 == turn) y[m][i] = exists ? lane : before;
        }
      }
    }
  }
#pragma unroll
  for (unsigned m = 0; m < M; ++m) {
#pragma unroll
    for (unsigned i = 0; i < N; ++i) y[m][i] = lane_sum(y[m][i]);
  }
}
inline constexpr unsigned first_holder = 24;  // of the threads that hold multiply_rows' results

// Calls body<Type>() for a format that has kernels.
template <class Body>
void with_format(format type, Body&& body) {
  switch (type) {
    case format::f32: return body.template operator()<format::f32>();
    case format::f16: return body.template operator()<format::f16>();
    case format::bf16: return body.template operator()<format::bf16>();
    case format::q8_0: return body.template operator()<format::q8_0>();
    case format::q4_0: return body.template operator()<format::q4_0>();
    case format::q4_1: return body.template operator()<format::q4_1>();
    case format::q5_0: return body.template operator()<format::q5_0>();
    case format::q5_1: return body.template operator()<format::q5_1>();
    case format::q4_k: return body.template operator()<format::q4_k>();
    case format::q5_k: return body.template operator()<format::q5_k>();
    case format::q6_k: return body.template operator()<format::q6_k>();
    default: assert_failed("a format with has_kernels has a case here", __FILE__, __LINE__);
  }
}

}  // namespace ebb::kernels::cuda

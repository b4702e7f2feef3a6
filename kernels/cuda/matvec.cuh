// kernels/cuda/matvec.cuh: the eight threads of a row of weights, as device code that several kernels share.
#pragma once
#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/blocks.cuh"

namespace ebb::kernels::cuda {

// Lane l of one row of quantised weights times rows 0 .. N - 1 of x, of which n exist; sums[i] is this thread's lane.
template <format Type, unsigned N>
__device__ inline void quantised_lanes(const std::uint8_t* row, unsigned l, const activation_buffer& x, std::uint32_t first_row, std::uint32_t n,
                                       float (&sums)[N]) {
  using stored = block<Type>;
  const std::uint32_t n_blocks = x.n_cols / 32;
#pragma unroll(N == 1 ? 4 : 2)
  for (std::uint32_t b = l; b < n_blocks; b += 8) {
    const std::uint8_t* at = row + std::size_t{b / stored::sub_blocks} * stored::bytes;
    std::uint32_t w[8];
    load_words<Type>(at, b % stored::sub_blocks, w);
    const block_head head = stored::head(at, b % stored::sub_blocks);
#pragma unroll
    for (unsigned i = 0; i < N; ++i) {
      if (N > 1 && i >= n) break;
      const std::size_t met = (std::size_t{first_row} + i) * n_blocks + b;
      sums[i] = meet<Type>(w, head, x.part[0].q + met * 32, __ldg(x.part[0].d + met), __ldg(x.part[0].sum + met), sums[i]);
      if (x.part[1].q != nullptr) {
        sums[i] = meet<Type>(w, head, x.part[1].q + met * 32, __ldg(x.part[1].d + met), __ldg(x.part[1].sum + met), sums[i]);
      }
    }
  }
}

__host__ __device__ constexpr bool is_float(format type) { return type == format::f32 || type == format::f16 || type == format::bf16; }

template <format Type>
__device__ inline float float_weight(const std::uint8_t* row, std::uint32_t c) {
  if constexpr (Type == format::f32) return __ldg(reinterpret_cast<const float*>(row) + c);
  else if constexpr (Type == format::f16) return half_as_float(__ldg(reinterpret_cast<const std::uint16_t*>(row) + c));
  else return bf16_as_float(__ldg(reinterpret_cast<const std::uint16_t*>(row) + c));
}

// The same for float weights, which meet the floats of x.
template <format Type, unsigned N>
__device__ inline void float_lanes(const std::uint8_t* row, unsigned l, const activation_buffer& x, std::uint32_t first_row, std::uint32_t n,
                                   float (&sums)[N]) {
#pragma unroll(N == 1 ? 8 : 2)
  for (std::uint32_t c = l; c < x.n_cols; c += 8) {
    const float w = float_weight<Type>(row, c);
#pragma unroll
    for (unsigned i = 0; i < N; ++i) {
      if (N > 1 && i >= n) break;
      sums[i] = __fmaf_rn(w, __ldg(x.x + (std::size_t{first_row} + i) * x.n_cols + c), sums[i]);
    }
  }
}

template <format Type>
__host__ __device__ constexpr std::size_t row_bytes(std::uint32_t n_cols) {
  if constexpr (Type == format::f32) return std::size_t{n_cols} * 4;
  else if constexpr (is_float(Type)) return std::size_t{n_cols} * 2;
  else return std::size_t{n_cols / 32 / block<Type>::sub_blocks} * block<Type>::bytes;
}

template <format Type, unsigned N>
__device__ inline void lanes(const std::uint8_t* row, unsigned l, const activation_buffer& x, std::uint32_t first_row, std::uint32_t n,
                             float (&sums)[N]) {
  if constexpr (is_float(Type)) float_lanes<Type, N>(row, l, x, first_row, n, sums);
  else quantised_lanes<Type, N>(row, l, x, first_row, n, sums);
}

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

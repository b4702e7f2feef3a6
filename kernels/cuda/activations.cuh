// kernels/cuda/activations.cuh: how a warp quantises activations.
#pragma once
#include "kernels/cuda/activations.hpp"
#include "kernels/cuda/exact.cuh"

namespace ebb::kernels::cuda {

// Quantises one block of 32 values, one in each thread of the warp. `at` is the block's number in the buffer. Gives what was left over.
__device__ inline float quantise_block(float u, std::size_t at, const quantised_buffer& to) {
  const unsigned thread = threadIdx.x % 32;
  const float step = __fdiv_rn(warp_max(fabsf(u)), 127.0f);
  const float d = step >= FLT_MIN ? step : 0.0f;
  const int q = d > 0.0f ? static_cast<int>(rintf(__fdiv_rn(u, d))) : 0;
  const int sum = warp_sum(q);
  to.q[at * 32 + thread] = static_cast<std::int8_t>(q);
  if (thread == 0) {
    to.d[at] = d;
    to.sum[at] = sum;
  }
  return __fmaf_rn(-d, static_cast<float>(q), u);
}

// Both parts.
__device__ inline void quantise_twice(float u, std::size_t at, const activation_buffer& to) {
  quantise_block(quantise_block(u, at, to.part[0]), at, to.part[1]);
}

}  // namespace ebb::kernels::cuda

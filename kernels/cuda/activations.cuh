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

// The same by eight neighbouring threads, the first of which is a multiple of eight, four values each.
__device__ inline float4 quantise_block(float4 u, std::size_t at, const quantised_buffer& to) {
  const unsigned thread = threadIdx.x % 8, mask = 0xffu << (threadIdx.x % 32 / 8 * 8);
  float largest = fmaxf(fmaxf(fabsf(u.x), fabsf(u.y)), fmaxf(fabsf(u.z), fabsf(u.w)));
  for (int step = 4; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(mask, largest, step));
  const float step = __fdiv_rn(largest, 127.0f);
  const float d = step >= FLT_MIN ? step : 0.0f;
  const auto nearest = [d](float value) { return d > 0.0f ? static_cast<int>(rintf(__fdiv_rn(value, d))) : 0; };
  const int4 q = make_int4(nearest(u.x), nearest(u.y), nearest(u.z), nearest(u.w));
  int sum = (q.x + q.y) + (q.z + q.w);
  for (int other = 4; other > 0; other /= 2) sum += __shfl_xor_sync(mask, sum, other);
  reinterpret_cast<char4*>(to.q)[at * 8 + thread] =
      make_char4(static_cast<signed char>(q.x), static_cast<signed char>(q.y), static_cast<signed char>(q.z), static_cast<signed char>(q.w));
  if (thread == 0) {
    to.d[at] = d;
    to.sum[at] = sum;
  }
  return {__fmaf_rn(-d, static_cast<float>(q.x), u.x), __fmaf_rn(-d, static_cast<float>(q.y), u.y), __fmaf_rn(-d, static_cast<float>(q.z), u.z),
          __fmaf_rn(-d, static_cast<float>(q.w), u.w)};
}

// Both parts.
__device__ inline void quantise_twice(float u, std::size_t at, const activation_buffer& to) {
  quantise_block(quantise_block(u, at, to.part[0]), at, to.part[1]);
}

}  // namespace ebb::kernels::cuda

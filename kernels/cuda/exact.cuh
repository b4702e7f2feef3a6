// kernels/cuda/exact.cuh: the arithmetic of docs/ARITHMETIC.md in device code, operation by operation.
//
// Compiled with -fmad=false -prec-div=true -prec-sqrt=true -ftz=false: + - * / are rounded once each, and fmaf is written where it is meant.
#pragma once
#include <cfloat>
#include <cstdint>
#include <cuda_fp16.h>

namespace ebb::kernels::cuda {

__device__ inline float half_as_float(std::uint16_t half) { return __half2float(__ushort_as_half(half)); }
__device__ inline std::uint16_t float_as_half(float value) { return __half_as_ushort(__float2half_rn(value)); }
__device__ inline float bf16_as_float(std::uint16_t bf16) { return __uint_as_float(static_cast<std::uint32_t>(bf16) << 16); }

// kernels/exact_math.hpp, exact_exp.
__device__ inline float exact_exp(float x) {
  x = x > -87.0f ? x : -87.0f;
  x = x < 87.0f ? x : 87.0f;
  const float n = rintf(__fmul_rn(x, 1.44269504f));
  float r = __fmaf_rn(n, -0.693145752f, x);
  r = __fmaf_rn(n, -1.42860677e-6f, r);
  float p = 1.98412698e-4f;
  p = __fmaf_rn(p, r, 1.38888889e-3f);
  p = __fmaf_rn(p, r, 8.33333333e-3f);
  p = __fmaf_rn(p, r, 4.16666667e-2f);
  p = __fmaf_rn(p, r, 1.66666667e-1f);
  p = __fmaf_rn(p, r, 0.5f);
  p = __fmaf_rn(p, r, 1.0f);
  p = __fmaf_rn(p, r, 1.0f);
  return __fmul_rn(p, __uint_as_float(static_cast<std::uint32_t>(static_cast<int>(n) + 127) << 23));
}

__device__ inline float exact_silu(float x) { return __fdiv_rn(x, __fadd_rn(1.0f, exact_exp(-x))); }

// The tree over eight lanes that lie in eight neighbouring threads, the first of which is a multiple of eight; all of them get the sum.
// `mask` names the threads of the warp that call.
__device__ inline float lane_sum(float lane, unsigned mask = 0xffffffffu) {
  lane = __fadd_rn(lane, __shfl_xor_sync(mask, lane, 4));
  lane = __fadd_rn(lane, __shfl_xor_sync(mask, lane, 2));
  return __fadd_rn(lane, __shfl_xor_sync(mask, lane, 1));
}

// The same over eight lanes of one thread.
__device__ inline float lane_sum(const float (&lane)[8]) {
  return __fadd_rn(__fadd_rn(__fadd_rn(lane[0], lane[4]), __fadd_rn(lane[2], lane[6])),
                   __fadd_rn(__fadd_rn(lane[1], lane[5]), __fadd_rn(lane[3], lane[7])));
}

__device__ inline float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

__device__ inline int warp_sum(int value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

}  // namespace ebb::kernels::cuda

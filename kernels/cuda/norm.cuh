// kernels/cuda/norm.cuh: the norm of a row that lies in shared memory, as device code that several kernels share.
#pragma once
#include "kernels/cuda/exact.cuh"

namespace ebb::kernels::cuda {

// A row of n values in shared memory, a lane's values one behind the other: value i is at i % 8 * stride + i / 8, and a lane begins at a multiple of
// 16 bytes, four banks after the lane before it.
__host__ __device__ constexpr std::uint32_t lane_stride(std::uint32_t n) { return (n / 8 + 31) / 32 * 32 + 4; }
__device__ inline std::uint32_t place_of(std::uint32_t i, std::uint32_t n) { return i % 8 * lane_stride(n) + i / 8; }

// By eight neighbouring threads, the first of which is a multiple of 32, l being a thread's number among them: all get 1 / sqrt(mean + eps).
__device__ inline float inverse_rms(const float* row, std::uint32_t n, float eps, unsigned l) {
  const float* mine = row + l * lane_stride(n);
  const std::uint32_t count = n / 8;
  float lane = 0.0f;
  std::uint32_t i = 0;
#pragma unroll 8
  for (; i + 4 <= count; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(mine + i);
    lane = __fmaf_rn(four.x, four.x, lane);
    lane = __fmaf_rn(four.y, four.y, lane);
    lane = __fmaf_rn(four.z, four.z, lane);
    lane = __fmaf_rn(four.w, four.w, lane);
  }
  for (; i < count; ++i) lane = __fmaf_rn(mine[i], mine[i], lane);
  const float mean = __fdiv_rn(lane_sum(lane, 0xffu), static_cast<float>(n));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
}

}  // namespace ebb::kernels::cuda

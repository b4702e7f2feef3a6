// kernels/exact_math.hpp: the functions beyond + - * / sqrt, as fixed sequences of those and fmaf (docs/ARITHMETIC.md).
//
// A math library's exp differs from one machine to the next; this polynomial does not. Every constant is a float, every line one
// rounding. The code for other instruction sets repeats these lines operation by operation.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace ebb::kernels {

// e^x to a relative error below 8e-8, or 1.33 * 2^-24 (measured over the floats in range). An x outside [-87, 87] counts as the nearer
// end, NaN as -87.
inline float exact_exp(float x) noexcept {
  x = x > -87.0f ? x : -87.0f;
  x = x < 87.0f ? x : 87.0f;
  const float n = std::rint(x * 1.44269504f);  // e^x = 2^n e^r
  float r = std::fma(n, -0.693145752f, x);     // ln 2 in two parts, so that n * ln 2 keeps its low bits
  r = std::fma(n, -1.42860677e-6f, r);
  float p = 1.98412698e-4f;  // 1/7!, and down to 1/0!
  p = std::fma(p, r, 1.38888889e-3f);
  p = std::fma(p, r, 8.33333333e-3f);
  p = std::fma(p, r, 4.16666667e-2f);
  p = std::fma(p, r, 1.66666667e-1f);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127);  // in [1, 253]: 2^n is a normal number
  return p * std::bit_cast<float>(exponent << 23);
}

inline float exact_silu(float x) noexcept { return x / (1.0f + exact_exp(-x)); }

// The one order in which eight partial sums become one.
inline float lane_sum(const float (&lane)[8]) noexcept {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

}  // namespace ebb::kernels

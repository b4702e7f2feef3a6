// kernels/half.hpp: 16-bit floats, exactly and without help of the processor.
//
// half is IEEE binary16, bf16 the upper half of a binary32. Every half and every bf16 is a float, so reading rounds nothing;
// writing a half rounds to nearest, ties to even. A NaN becomes quiet and keeps its upper payload, as F16C instructions do.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace ebb::kernels {

inline float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  std::uint32_t magnitude = ((exponent + 112) << 23) | (fraction << 13);  // 112 = 127 - 15, the difference of the biases
  if (exponent == 0) magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
  if (exponent == 0x1f) magnitude = 0x7f800000u | (fraction << 13) | (fraction != 0 ? 0x00400000u : 0u);
  return std::bit_cast<float>(sign | magnitude);
}

inline std::uint16_t float_to_half(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto signed_half = [sign = (bits >> 16) & 0x8000u](std::uint32_t half) { return static_cast<std::uint16_t>(sign | half); };
  if (magnitude > 0x7f800000u) return signed_half(0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return signed_half(0x7c00u);  // 65520 and above: nearer to infinity than to 65504
  if (magnitude < 0x38800000u) {                              // below 2^-14: subnormal, a whole number of steps of 2^-24
    return signed_half(static_cast<std::uint32_t>(std::rint(std::bit_cast<float>(magnitude) * 0x1p24f)));
  }
  const std::uint32_t round_to_even = 0xfffu + ((magnitude >> 13) & 1u);
  return signed_half(((magnitude + round_to_even) >> 13) - (112u << 10));
}

inline float bf16_to_float(std::uint16_t bf16) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16); }

}  // namespace ebb::kernels

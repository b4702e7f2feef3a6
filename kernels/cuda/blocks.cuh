// kernels/cuda/blocks.cuh: the quantised formats as a GPU reads them, 32 values (a sub-block) at a time. Layouts: kernels/format.hpp.
//
//   word(block, j, w)   values 4 w .. 4 w + 3 of sub-block j as four signed bytes, before the format's own offset
//   head(block, j)      what scales them
//   lane_after          kernels/matmul.hpp's step of a lane, from the exact integer sums
//
// K-quants are read by 16 bytes and need blocks that begin at multiples of 16; the others by 2 or 4 bytes, as their size allows.
#pragma once
#include "kernels/cuda/exact.cuh"
#include "kernels/format.hpp"

namespace ebb::kernels::cuda {

// Two reads, for blocks of an odd number of half-words.
__device__ inline std::uint32_t word_at_2(const std::uint8_t* from) {
  const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
  return __ldg(halves) | static_cast<std::uint32_t>(__ldg(halves + 1)) << 16;
}
__device__ inline std::uint32_t word_at_4(const std::uint8_t* from) { return __ldg(reinterpret_cast<const std::uint32_t*>(from)); }
__device__ inline float half_at(const std::uint8_t* from) { return half_as_float(__ldg(reinterpret_cast<const std::uint16_t*>(from))); }

// Bits 4 w .. 4 w + 3 of `bits`, each as bit 4 of a byte.
__device__ inline std::uint32_t fifth_bits(std::uint32_t bits, unsigned w) {
  const std::uint32_t four = bits >> (4 * w);
  return (four & 1) << 4 | (four & 2) << 11 | (four & 4) << 18 | (four & 8) << 25;
}
// Byte i of 16 holds value i in its low nibble and value i + 16 in its high one.
__device__ inline std::uint32_t nibbles_of_32(std::uint32_t bytes, unsigned w) { return (w < 4 ? bytes : bytes >> 4) & 0x0f0f0f0fu; }

struct block_head {
  float d = 0, m = 0;             // factor and minimum, or what scales it
  int scale = 1, scale_high = 0;  // of all 32 values; or of the first 16 and the others
  int min = 0;
};

// How the integer sums become a step of a lane.
enum class lane_rule { centred, offset, scaled, split };

template <format Type>
struct block;

template <>
struct block<format::q8_0> {
  static constexpr unsigned bytes = 34, sub_blocks = 1;
  static constexpr lane_rule rule = lane_rule::centred;
  static constexpr int zero = 0;
  __device__ static std::uint32_t word(const std::uint8_t* at, unsigned, unsigned w) { return word_at_2(at + 2 + 4 * w); }
  __device__ static block_head head(const std::uint8_t* at, unsigned) { return {half_at(at)}; }
};

template <>
struct block<format::q4_0> {
  static constexpr unsigned bytes = 18, sub_blocks = 1;
  static constexpr lane_rule rule = lane_rule::centred;
  static constexpr int zero = 8;
  __device__ static std::uint32_t word(const std::uint8_t* at, unsigned, unsigned w) { return nibbles_of_32(word_at_2(at + 2 + 4 * (w % 4)), w); }
  __device__ static block_head head(const std::uint8_t* at, unsigned) { return {half_at(at)}; }
};

template <>
struct block<format::q5_0> {
  static constexpr unsigned bytes = 22, sub_blocks = 1;
  static constexpr lane_rule rule = lane_rule::centred;
  static constexpr int zero = 16;
  __device__ static std::uint32_t word(const std::uint8_t* at, unsigned, unsigned w) {
    return nibbles_of_32(word_at_2(at + 6 + 4 * (w % 4)), w) | fifth_bits(word_at_2(at + 2), w);
  }
  __device__ static block_head head(const std::uint8_t* at, unsigned) { return {half_at(at)}; }
};

template <>
struct block<format::q4_1> {
  static constexpr unsigned bytes = 20, sub_blocks = 1;
  static constexpr lane_rule rule = lane_rule::offset;
  static constexpr int zero = 0;
  __device__ static std::uint32_t word(const std::uint8_t* at, unsigned, unsigned w) { return nibbles_of_32(word_at_4(at + 4 + 4 * (w % 4)), w); }
  __device__ static block_head head(const std::uint8_t* at, unsigned) { return {half_at(at), half_at(at + 2)}; }
};

template <>
struct block<format::q5_1> {
  static constexpr unsigned bytes = 24, sub_blocks = 1;
  static constexpr lane_rule rule = lane_rule::offset;
  static constexpr int zero = 0;
  __device__ static std::uint32_t word(const std::uint8_t* at, unsigned, unsigned w) {
    return nibbles_of_32(word_at_4(at + 8 + 4 * (w % 4)), w) | fifth_bits(word_at_4(at + 4), w);
  }
  __device__ static block_head head(const std::uint8_t* at, unsigned) { return {half_at(at), half_at(at + 2)}; }
};

// The first 16 bytes of a block of Q4_K and Q5_K: d, dmin and the packed scales of kernels/block_values.hpp, scale_of.
__device__ inline block_head scaled_head(uint4 first, unsigned j) {
  block_head head;
  head.d = half_as_float(static_cast<std::uint16_t>(first.x));
  head.m = half_as_float(static_cast<std::uint16_t>(first.x >> 16));
  const unsigned shift = 8 * (j % 4);
  const unsigned low = first.y >> shift & 255, middle = first.z >> shift & 255, high = first.w >> shift & 255;
  head.scale = static_cast<int>(j < 4 ? low & 63 : (high & 15) | (low >> 6 << 4));
  head.min = static_cast<int>(j < 4 ? middle & 63 : (high >> 4) | (middle >> 6 << 4));
  return head;
}

template <>
struct block<format::q4_k> {
  static constexpr unsigned bytes = 144, sub_blocks = 8;
  static constexpr lane_rule rule = lane_rule::scaled;
  static constexpr int zero = 0;
  __device__ static std::uint32_t word(const std::uint8_t* at, unsigned j, unsigned w) {
    return word_at_4(at + 16 + j / 2 * 32 + 4 * w) >> (j % 2 * 4) & 0x0f0f0f0fu;
  }
  __device__ static block_head head(const std::uint8_t* at, unsigned j) { return scaled_head(__ldg(reinterpret_cast<const uint4*>(at)), j); }
};

template <>
struct block<format::q5_k> {
  static constexpr unsigned bytes = 176, sub_blocks = 8;
  static constexpr lane_rule rule = lane_rule::scaled;
  static constexpr int zero = 0;
  __device__ static std::uint32_t word(const std::uint8_t* at, unsigned j, unsigned w) {
    const std::uint32_t low = word_at_4(at + 48 + j / 2 * 32 + 4 * w) >> (j % 2 * 4) & 0x0f0f0f0fu;
    return low | (word_at_4(at + 16 + 4 * w) >> j & 0x01010101u) << 4;
  }
  __device__ static block_head head(const std::uint8_t* at, unsigned j) { return scaled_head(__ldg(reinterpret_cast<const uint4*>(at)), j); }
};

template <>
struct block<format::q6_k> {
  static constexpr unsigned bytes = 210, sub_blocks = 8;
  static constexpr lane_rule rule = lane_rule::split;
  static constexpr int zero = 0;
  __device__ static std::uint32_t word(const std::uint8_t* at, unsigned j, unsigned w) {
    const unsigned half = j / 4, quarter = j % 4;
    const std::uint32_t low = word_at_2(at + half * 64 + quarter % 2 * 32 + 4 * w) >> (quarter / 2 * 4) & 0x0f0f0f0fu;
    const std::uint32_t high = word_at_2(at + 128 + half * 32 + 4 * w) >> (quarter * 2) & 0x03030303u;
    return (((low | high << 4) | 0x80808080u) - 0x20202020u) ^ 0x80808080u;  // every byte less 32, without a borrow between them
  }
  __device__ static block_head head(const std::uint8_t* at, unsigned j) {
    block_head head{half_at(at + 208)};
    const std::uint16_t scales = __ldg(reinterpret_cast<const std::uint16_t*>(at + 192 + 2 * j));
    head.scale = static_cast<std::int8_t>(scales);
    head.scale_high = static_cast<std::int8_t>(scales >> 8);
    return head;
  }
};

// The 32 values of a sub-block: eight words.
template <format Type>
__device__ inline void load_words(const std::uint8_t* at, unsigned j, std::uint32_t (&q)[8]) {
  if constexpr (Type == format::q4_k || Type == format::q5_k) {
    const auto* by_16 = reinterpret_cast<const uint4*>(at + (Type == format::q4_k ? 16 : 48) + j / 2 * 32);
    const uint4 first = __ldg(by_16), second = __ldg(by_16 + 1);
    const unsigned shift = j % 2 * 4;
    q[0] = first.x >> shift & 0x0f0f0f0fu, q[1] = first.y >> shift & 0x0f0f0f0fu;
    q[2] = first.z >> shift & 0x0f0f0f0fu, q[3] = first.w >> shift & 0x0f0f0f0fu;
    q[4] = second.x >> shift & 0x0f0f0f0fu, q[5] = second.y >> shift & 0x0f0f0f0fu;
    q[6] = second.z >> shift & 0x0f0f0f0fu, q[7] = second.w >> shift & 0x0f0f0f0fu;
    if constexpr (Type == format::q5_k) {
      const auto* bits = reinterpret_cast<const uint4*>(at + 16);
      const uint4 low = __ldg(bits), high = __ldg(bits + 1);
      q[0] |= (low.x >> j & 0x01010101u) << 4, q[1] |= (low.y >> j & 0x01010101u) << 4;
      q[2] |= (low.z >> j & 0x01010101u) << 4, q[3] |= (low.w >> j & 0x01010101u) << 4;
      q[4] |= (high.x >> j & 0x01010101u) << 4, q[5] |= (high.y >> j & 0x01010101u) << 4;
      q[6] |= (high.z >> j & 0x01010101u) << 4, q[7] |= (high.w >> j & 0x01010101u) << 4;
    }
  } else {
#pragma unroll
    for (unsigned w = 0; w < 8; ++w) q[w] = block<Type>::word(at, j, w);
  }
}

// `dot`: of all 32 values, or of the first 16 where the rule is split and `dot_high` is of the others.
template <format Type>
__device__ inline float lane_after(const block_head& head, int dot, int dot_high, float dx, int xsum, float lane) {
  constexpr lane_rule rule = block<Type>::rule;
  if constexpr (rule == lane_rule::centred) {
    return __fmaf_rn(static_cast<float>(dot - block<Type>::zero * xsum), __fmul_rn(head.d, dx), lane);
  } else if constexpr (rule == lane_rule::offset) {
    lane = __fmaf_rn(static_cast<float>(dot), __fmul_rn(head.d, dx), lane);
    return __fmaf_rn(static_cast<float>(xsum), __fmul_rn(head.m, dx), lane);
  } else if constexpr (rule == lane_rule::scaled) {
    lane = __fmaf_rn(static_cast<float>(dot * head.scale), __fmul_rn(head.d, dx), lane);
    return __fmaf_rn(-static_cast<float>(xsum * head.min), __fmul_rn(head.m, dx), lane);
  } else {
    return __fmaf_rn(static_cast<float>(head.scale * dot + head.scale_high * dot_high), __fmul_rn(head.d, dx), lane);
  }
}

// One step of a lane: sub-block b of a row of weights meets the same block of a row of quantised activations, q, d and sum being the row's.
template <format Type>
__device__ inline float meet(const std::uint32_t (&w)[8], const block_head& head, const std::int8_t* q, float dx, int xsum, float lane) {
  const auto* by_16 = reinterpret_cast<const int4*>(q);
  const int4 first = __ldg(by_16), second = __ldg(by_16 + 1);
  int dot = __dp4a(static_cast<int>(w[0]), first.x, 0);
  dot = __dp4a(static_cast<int>(w[1]), first.y, dot);
  dot = __dp4a(static_cast<int>(w[2]), first.z, dot);
  dot = __dp4a(static_cast<int>(w[3]), first.w, dot);
  int dot_high = block<Type>::rule == lane_rule::split ? 0 : dot;
  dot_high = __dp4a(static_cast<int>(w[4]), second.x, dot_high);
  dot_high = __dp4a(static_cast<int>(w[5]), second.y, dot_high);
  dot_high = __dp4a(static_cast<int>(w[6]), second.z, dot_high);
  dot_high = __dp4a(static_cast<int>(w[7]), second.w, dot_high);
  if constexpr (block<Type>::rule == lane_rule::split) return lane_after<Type>(head, dot, dot_high, dx, xsum, lane);
  else return lane_after<Type>(head, dot_high, 0, dx, xsum, lane);
}

}  // namespace ebb::kernels::cuda

// kernels/cuda/blocks.cuh: the quantised formats as a GPU reads them, 32 values (a sub-block) at a time. Layouts: kernels/format.hpp.
//
//   word(block, j, w)   values 4 w .. 4 w + 3 of sub-block j as four signed bytes, before the format's own offset
//   head(block, j)      what scales them
//   step_of, after      kernels/matmul.hpp's step of a lane, from the exact integer sums
//
// Integers become floats without a conversion, of which a GPU does few: a sum that starts from `magic` is, read as a float, 1.5 * 2^23 plus that
// sum. Products of such floats with scales are exact wherever the integer product is below 2^24, which kernels/matmul.hpp's bounds say it is.
//
// K-quants are read by 16 bytes and need blocks that begin at multiples of 16; the others by 2 or 4 bytes, as their size allows.
#pragma once
#include "kernels/cuda/exact.cuh"
#include "kernels/format.hpp"

namespace ebb::kernels::cuda {

// From any memory: the GPU's, or what a block has staged of it. Two reads for blocks of an odd number of half-words.
__device__ inline std::uint32_t word_at_2(const std::uint8_t* from) {
  const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
  return halves[0] | static_cast<std::uint32_t>(halves[1]) << 16;
}
__device__ inline std::uint32_t word_at_4(const std::uint8_t* from) { return *reinterpret_cast<const std::uint32_t*>(from); }
__device__ inline float half_at(const std::uint8_t* from) { return half_as_float(*reinterpret_cast<const std::uint16_t*>(from)); }

// Bits 4 w .. 4 w + 3 of `bits`, each as bit 4 of a byte.
__device__ inline std::uint32_t fifth_bits(std::uint32_t bits, unsigned w) {
  const std::uint32_t four = bits >> (4 * w);
  return (four & 1) << 4 | (four & 2) << 11 | (four & 4) << 18 | (four & 8) << 25;
}
// Byte i of 16 holds value i in its low nibble and value i + 16 in its high one.
__device__ inline std::uint32_t nibbles_of_32(std::uint32_t bytes, unsigned w) { return (w < 4 ? bytes : bytes >> 4) & 0x0f0f0f0fu; }

inline constexpr int magic = 0x4b400000;         // as a float 1.5 * 2^23
inline constexpr float magic_float = 12582912.0f;

// The float of an integer below 2^22 in magnitude.
__device__ inline float exact_float(int value) { return __fsub_rn(__int_as_float(magic + value), magic_float); }

struct block_head {
  float d = 0, m = 0;              // factor and minimum, or what scales it
  float scale = 1, scale_high = 0; // whole numbers: of all 32 values; or of the first 16 and the others
  float min = 0;                   // a whole number
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
  head.scale = exact_float(static_cast<int>(j < 4 ? low & 63 : (high & 15) | (low >> 6 << 4)));
  head.min = exact_float(static_cast<int>(j < 4 ? middle & 63 : (high >> 4) | (middle >> 6 << 4)));
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
  __device__ static block_head head(const std::uint8_t* at, unsigned j) { return scaled_head(*reinterpret_cast<const uint4*>(at), j); }
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
  __device__ static block_head head(const std::uint8_t* at, unsigned j) { return scaled_head(*reinterpret_cast<const uint4*>(at), j); }
};

// Four values of Q6_K from the words that hold their low four and their high two bits.
__device__ inline std::uint32_t q6_word(std::uint32_t low, std::uint32_t high, unsigned quarter) {
  const std::uint32_t six = (low >> (quarter / 2 * 4) & 0x0f0f0f0fu) | (high >> (quarter * 2) & 0x03030303u) << 4;
  return ((six | 0x80808080u) - 0x20202020u) ^ 0x80808080u;  // every byte less 32, without a borrow between them
}

// Eight words from an even address by nine aligned reads, of which the last may reach four bytes further.
__device__ inline void words_at_2(const std::uint8_t* from, std::uint32_t (&words)[8]) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const auto* aligned = reinterpret_cast<const std::uint32_t*>(address & ~std::uintptr_t{3});
  const unsigned shift = static_cast<unsigned>(address & 2) * 8;
  std::uint32_t before = aligned[0];
#pragma unroll
  for (unsigned w = 0; w < 8; ++w) {
    const std::uint32_t next = aligned[w + 1];
    words[w] = __funnelshift_r(before, next, shift);
    before = next;
  }
}

template <>
struct block<format::q6_k> {
  static constexpr unsigned bytes = 210, sub_blocks = 8;
  static constexpr lane_rule rule = lane_rule::split;
  static constexpr int zero = 0;
  __device__ static std::uint32_t word(const std::uint8_t* at, unsigned j, unsigned w) {
    const unsigned half = j / 4, quarter = j % 4;
    return q6_word(word_at_2(at + half * 64 + quarter % 2 * 32 + 4 * w), word_at_2(at + 128 + half * 32 + 4 * w), quarter);
  }
  __device__ static block_head head(const std::uint8_t* at, unsigned j) {
    block_head head{half_at(at + 208)};
    const std::uint16_t scales = *reinterpret_cast<const std::uint16_t*>(at + 192 + 2 * j);
    head.scale = exact_float(static_cast<std::int8_t>(scales));
    head.scale_high = exact_float(static_cast<std::int8_t>(scales >> 8));
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
  } else if constexpr (Type == format::q6_k) {
    std::uint32_t low[8], high[8];
    words_at_2(at + j / 4 * 64 + j % 2 * 32, low);
    words_at_2(at + 128 + j / 4 * 32, high);
#pragma unroll
    for (unsigned w = 0; w < 8; ++w) q[w] = q6_word(low[w], high[w], j % 4);
  } else {
#pragma unroll
    for (unsigned w = 0; w < 8; ++w) q[w] = block<Type>::word(at, j, w);
  }
}

// A step of a lane, apart from the lane: one fmaf, or two where the format has a minimum.
struct lane_step {
  float value, factor;
  float min_value, min_factor;
};

// `dot`, `dot_high`: integer sums that started from `magic`, as floats: of all 32 values, or of the first 16 and the others where the rule is split.
// `xsum` is a whole number. Every line but the products of two factors is exact.
template <format Type>
__device__ inline lane_step step_of(const block_head& head, float dot, float dot_high, float dx, float xsum) {
  constexpr lane_rule rule = block<Type>::rule;
  lane_step step{0.0f, __fmul_rn(head.d, dx), 0.0f, 0.0f};
  if constexpr (rule == lane_rule::centred) {
    step.value = __fsub_rn(dot, magic_float);
    if constexpr (block<Type>::zero != 0) step.value = __fmaf_rn(-static_cast<float>(block<Type>::zero), xsum, step.value);
  } else if constexpr (rule == lane_rule::offset) {
    step.value = __fsub_rn(dot, magic_float);
    step.min_value = xsum;
    step.min_factor = __fmul_rn(head.m, dx);
  } else if constexpr (rule == lane_rule::scaled) {
    step.value = __fmaf_rn(dot, head.scale, __fmul_rn(-magic_float, head.scale));
    step.min_value = -__fmul_rn(xsum, head.min);
    step.min_factor = __fmul_rn(head.m, dx);
  } else {
    const float first = __fmaf_rn(dot, head.scale, __fmul_rn(-magic_float, head.scale));
    step.value = __fmaf_rn(__fsub_rn(dot_high, magic_float), head.scale_high, first);
  }
  return step;
}

template <format Type>
__device__ inline float after(const lane_step& step, float lane) {
  lane = __fmaf_rn(step.value, step.factor, lane);
  if constexpr (block<Type>::rule == lane_rule::offset || block<Type>::rule == lane_rule::scaled) lane = __fmaf_rn(step.min_value, step.min_factor, lane);
  return lane;
}

// The integer sums of a sub-block with 32 quantised activations, as step_of takes them.
struct block_dot {
  float low, high;
};
template <format Type>
__device__ inline block_dot dot(const std::uint32_t (&w)[8], const std::int8_t* q) {
  const auto* by_16 = reinterpret_cast<const int4*>(q);
  const int4 first = __ldg(by_16), second = __ldg(by_16 + 1);
  int low = __dp4a(static_cast<int>(w[0]), first.x, magic);
  low = __dp4a(static_cast<int>(w[1]), first.y, low);
  low = __dp4a(static_cast<int>(w[2]), first.z, low);
  low = __dp4a(static_cast<int>(w[3]), first.w, low);
  constexpr bool split = block<Type>::rule == lane_rule::split;
  int high = __dp4a(static_cast<int>(w[4]), second.x, split ? magic : low);
  high = __dp4a(static_cast<int>(w[5]), second.y, high);
  high = __dp4a(static_cast<int>(w[6]), second.z, high);
  high = __dp4a(static_cast<int>(w[7]), second.w, high);
  if constexpr (split) return {__int_as_float(low), __int_as_float(high)};
  else return {__int_as_float(high), 0.0f};
}

}  // namespace ebb::kernels::cuda

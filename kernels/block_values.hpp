// kernels/block_values.hpp: what each value of a block is, one function a format: the layouts of kernels/format.hpp, spelled out.
//
//   quant(block, i)   the integer stored for value i, already centred (Q4_0: nibble - 8), so that x = factor * quant [+ or - minimum]
//   value(block, i)   x itself in float: products first, then the sum
//
// Plain code for dequantize, the scalar kernels and oracles; vector code reads the same bits its own way.
#pragma once
#include "kernels/format.hpp"
#include "kernels/half.hpp"
#include <cstring>
#include <type_traits>

namespace ebb::kernels {

// A copy, because a row may start at any byte.
template <class Block>
Block load_block(const std::byte* row, std::size_t index) noexcept {
  Block block;
  std::memcpy(&block, row + index * sizeof(Block), sizeof(Block));
  return block;
}

// Byte i holds value i in its low nibble and value i + 16 in its high one.
inline int nibble_of_32(const std::uint8_t (&q)[16], unsigned i) noexcept { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }
inline int fifth_bit_of_32(const std::uint8_t (&high)[4], unsigned i) noexcept { return ((high[i / 8] >> (i % 8)) & 1) << 4; }

inline int quant(const block_q8_0& block, unsigned i) noexcept { return block.q[i]; }
inline int quant(const block_q4_0& block, unsigned i) noexcept { return nibble_of_32(block.q, i) - 8; }
inline int quant(const block_q4_1& block, unsigned i) noexcept { return nibble_of_32(block.q, i); }
inline int quant(const block_q5_0& block, unsigned i) noexcept { return (nibble_of_32(block.q, i) | fifth_bit_of_32(block.high, i)) - 16; }
inline int quant(const block_q5_1& block, unsigned i) noexcept { return nibble_of_32(block.q, i) | fifth_bit_of_32(block.high, i); }

// Of K-quants, `i / 32` is the sub-block. Two neighbours share 32 bytes: the even one has the low nibbles.
inline int nibble_of_256(const std::uint8_t (&q)[128], unsigned i) noexcept { return (q[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15; }
inline int quant(const block_q4_k& block, unsigned i) noexcept { return nibble_of_256(block.q, i); }
inline int quant(const block_q5_k& block, unsigned i) noexcept {
  return nibble_of_256(block.q, i) | (((block.high[i % 32] >> (i / 32)) & 1) << 4);
}

// Each half of 128 values has 64 bytes of nibbles (sub-blocks 0 and 1 low, 2 and 3 high) and 32 bytes of bit pairs.
inline int quant(const block_q6_k& block, unsigned i) noexcept {
  const unsigned half = i / 128, sub_block = i / 32 % 4, column = i % 32;
  const int low = (block.low[half * 64 + sub_block % 2 * 32 + column] >> (sub_block / 2 * 4)) & 15;
  const int high = (block.high[half * 32 + column] >> (sub_block * 2)) & 3;
  return (low | (high << 4)) - 32;
}

// The scale and the minimum of a sub-block of Q4_K and Q5_K, 6 bits each: those of sub-blocks 0 to 3 lie in the low bits of bytes
// 0 to 7; those of 4 to 7 have their low nibbles in bytes 8 to 11 and their upper two bits on top of bytes 0 to 7.
struct scale_and_min {
  int scale;
  int min;
};
inline scale_and_min scale_of(const std::uint8_t (&packed)[12], unsigned sub_block) noexcept {
  const unsigned j = sub_block % 4;
  if (sub_block < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 8] & 15) | (packed[j] >> 6 << 4), (packed[j + 8] >> 4) | (packed[j + 4] >> 6 << 4)};
}

// One scale for 16 values.
inline int scale_of(const block_q6_k& block, unsigned i) noexcept { return block.scales[i / 16]; }

template <class Block>
concept centred_block = std::is_same_v<Block, block_q8_0> || std::is_same_v<Block, block_q4_0> || std::is_same_v<Block, block_q5_0>;
template <class Block>
concept offset_block = std::is_same_v<Block, block_q4_1> || std::is_same_v<Block, block_q5_1>;
template <class Block>
concept scaled_block = std::is_same_v<Block, block_q4_k> || std::is_same_v<Block, block_q5_k>;

template <centred_block Block>
float value(const Block& block, unsigned i) noexcept {
  return half_to_float(block.d) * static_cast<float>(quant(block, i));
}
template <offset_block Block>
float value(const Block& block, unsigned i) noexcept {
  return half_to_float(block.d) * static_cast<float>(quant(block, i)) + half_to_float(block.m);
}
template <scaled_block Block>
float value(const Block& block, unsigned i) noexcept {
  const auto [scale, min] = scale_of(block.scales, i / 32);
  const float factor = half_to_float(block.d) * static_cast<float>(scale);
  const float minimum = half_to_float(block.dmin) * static_cast<float>(min);
  return factor * static_cast<float>(quant(block, i)) - minimum;
}
inline float value(const block_q6_k& block, unsigned i) noexcept {
  const float factor = half_to_float(block.d) * static_cast<float>(scale_of(block, i));
  return factor * static_cast<float>(quant(block, i));
}

}  // namespace ebb::kernels

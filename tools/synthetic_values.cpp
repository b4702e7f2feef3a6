#include "tools/synthetic_values.hpp"
#include "config/assert.hpp"
#include "kernels/half.hpp"
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace ebb::tools {
namespace {

using namespace kernels;

// Of whole numbers spread evenly over a range of `count`, about their mean.
constexpr double variance_of(double count) { return (count * count - 1) / 12; }

constexpr double scale_k_square = 47.5 * 47.5 + variance_of(32);  // mean square of 32 to 63
constexpr double scale_6_square = 95.5 * 95.5 + variance_of(64);  // of 64 to 127
constexpr double off_centre_square = 0.25;                        // the mean of 0 to 2^n - 1 lies half below 2^(n-1)
constexpr double q8_square = 127.0 * 128.0 * 255.0 / 3 / 256;     // -127 to 127, with 0 twice

void draw_bytes(counted_random& random, void* out, std::size_t size_bytes) {
  auto* to = static_cast<std::byte*>(out);
  for (; size_bytes >= sizeof(std::uint64_t); size_bytes -= sizeof(std::uint64_t), to += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.word();
    std::memcpy(to, &word, sizeof word);
  }
  if (size_bytes == 0) return;
  const std::uint64_t word = random.word();
  std::memcpy(to, &word, size_bytes);
}

// The factor d for values d * u, where u has this mean square, as the half that it is stored as.
std::uint16_t factor_of(float deviation, double mean_square) {
  return float_to_half(deviation / static_cast<float>(std::sqrt(mean_square)));
}

std::uint16_t either_sign(std::uint16_t half, counted_random& random) { return static_cast<std::uint16_t>(half ^ (random.word() >> 63 << 15)); }

// Eight scales of 6 bits from 32 to 63, each beside a minimum of the same bits: kernels/block_values.hpp has the layout.
void draw_scales(counted_random& random, std::uint8_t (&scales)[12]) {
  const std::uint64_t word = random.word();
  const auto first = static_cast<std::uint32_t>(word) | 0xa0a0a0a0u;  // bit 5 of sub-blocks 0 to 3, and (bit 7) of 4 to 7
  const auto nibbles = static_cast<std::uint32_t>(word >> 32) & 0x0f0f0f0fu;
  const std::uint32_t packed[3] = {first, first, nibbles | nibbles << 4};
  std::memcpy(scales, packed, sizeof packed);
}

template <class Block>
void draw_k(const value_spread& spread, double n_levels, counted_random& random, std::span<Block> blocks) {
  const std::uint16_t d = factor_of(spread.deviation, scale_k_square * variance_of(n_levels));
  const std::uint16_t dmin = float_to_half(half_to_float(d) * static_cast<float>((n_levels - 1) / 2));
  for (Block& block : blocks) {
    block.d = d;
    block.dmin = dmin;
    draw_scales(random, block.scales);
    if constexpr (std::is_same_v<Block, block_q5_k>) draw_bytes(random, block.high, sizeof block.high);
    draw_bytes(random, block.q, sizeof block.q);
  }
}

void draw_q6_k(const value_spread& spread, counted_random& random, std::span<block_q6_k> blocks) {
  const std::uint16_t d = factor_of(spread.deviation, scale_6_square * (variance_of(64) + off_centre_square));
  for (block_q6_k& block : blocks) {
    draw_bytes(random, block.low, sizeof block.low);
    draw_bytes(random, block.high, sizeof block.high);
    draw_bytes(random, block.scales, sizeof block.scales);
    for (std::int8_t& scale : block.scales) {
      const int magnitude = 64 + (scale & 63);
      scale = static_cast<std::int8_t>(scale < 0 ? -magnitude : magnitude);
    }
    block.d = d;
  }
}

void draw_q8_0(const value_spread& spread, counted_random& random, std::span<block_q8_0> blocks) {
  const std::uint16_t d = factor_of(spread.deviation, q8_square);
  for (block_q8_0& block : blocks) {
    block.d = d;
    draw_bytes(random, block.q, sizeof block.q);
    for (std::int8_t& q : block.q) q = q == -128 ? std::int8_t{0} : q;  // no quantiser of this format writes -128
  }
}

template <class Block>
void draw_centred(const value_spread& spread, double n_levels, counted_random& random, std::span<Block> blocks) {
  const std::uint16_t d = factor_of(spread.deviation, variance_of(n_levels) + off_centre_square);
  for (Block& block : blocks) {
    draw_bytes(random, &block, sizeof block);
    block.d = either_sign(d, random);
  }
}

template <class Block>
void draw_offset(const value_spread& spread, double n_levels, counted_random& random, std::span<Block> blocks) {
  const std::uint16_t d = factor_of(spread.deviation, variance_of(n_levels));
  const std::uint16_t m = float_to_half(half_to_float(d) * -static_cast<float>((n_levels - 1) / 2));
  for (Block& block : blocks) {
    draw_bytes(random, &block, sizeof block);
    block.d = d;
    block.m = m;
  }
}

void draw_f32(const value_spread& spread, std::uint64_t first, std::uint64_t n_cols, counted_random& random, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float factor = spread.row_factors.empty() ? 1.0f : spread.row_factors[(first + i) / n_cols];
    values[i] = spread.mean + spread.deviation * factor * random.even();
  }
}

template <class Block>
std::span<Block> as(std::span<std::byte> out) {
  EBB_ASSERT(out.size() % sizeof(Block) == 0);
  return {reinterpret_cast<Block*>(out.data()), out.size() / sizeof(Block)};
}

}  // namespace

void draw_values(format format, const value_spread& spread, std::uint64_t first, std::uint64_t n_cols, counted_random& random,
                 std::span<std::byte> out) {
  EBB_ASSERT(info(format).has_kernels);
  switch (format) {
    case format::q4_k: return draw_k(spread, 16, random, as<block_q4_k>(out));
    case format::q5_k: return draw_k(spread, 32, random, as<block_q5_k>(out));
    case format::q6_k: return draw_q6_k(spread, random, as<block_q6_k>(out));
    case format::q8_0: return draw_q8_0(spread, random, as<block_q8_0>(out));
    case format::q4_0: return draw_centred(spread, 16, random, as<block_q4_0>(out));
    case format::q5_0: return draw_centred(spread, 32, random, as<block_q5_0>(out));
    case format::q4_1: return draw_offset(spread, 16, random, as<block_q4_1>(out));
    case format::q5_1: return draw_offset(spread, 32, random, as<block_q5_1>(out));
    case format::f16:
      for (std::uint16_t& value : as<std::uint16_t>(out)) value = float_to_half(spread.deviation * random.even());
      return;
    case format::bf16:  // cut, not rounded: the value is random anyway
      for (std::uint16_t& value : as<std::uint16_t>(out)) value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(spread.deviation * random.even()) >> 16);
      return;
    default: EBB_ASSERT(format == format::f32); return draw_f32(spread, first, n_cols, random, as<float>(out));
  }
}

}  // namespace ebb::tools

// kernels/cpu/x86/k_quants.hpp: tiles of Q4_K, Q5_K and Q6_K weights. One block of these formats is one tile.
//
// Every weight type here and in small_quants.hpp offers
//   sums                 how integer sums are made: maddubs or dpbusd
//   bytes                of a tile, eight blocks of 32 values
//   order                in which the blocks of a tile stand in its lanes
//   offset               of the stored integers: the weight is d * (stored - offset)
//   T(at)                unpacks the tile at `at`, reading `bytes` bytes
//   add(x, lanes)        the lanes after the tile has met the activations x, as kernels/matmul.hpp orders it
#pragma once
#include "kernels/cpu/x86/packed_activations.hpp"
#include "kernels/format.hpp"
#include <cstring>

namespace ebb::kernels::cpu {
namespace {

inline __m256 broadcast_half(std::uint16_t half) { return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(half))); }
inline __m256i low_nibbles(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }
inline __m256i high_nibbles(__m256i bytes) { return low_nibbles(_mm256_srli_epi16(bytes, 4)); }

// The lanes after products of one factor a block: lanes + sums * (d * x.d).
inline __m256 add_products(__m256i sums, __m256 d, const packed_tile& x, __m256 lanes) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_mul_ps(d, _mm256_load_ps(x.d)), lanes);
}

// What Q4_K and Q5_K have in common: two halves, eight scales and eight minima of 6 bits, and nibbles of two neighbouring blocks in
// 32 bytes, so that even blocks make group 0 and odd ones group 1.
class k_header {
 public:
  static constexpr block_order order = {0, 2, 4, 6, 1, 3, 5, 7};

  explicit k_header(const std::byte* at) {
    std::uint32_t halves, packed[3];
    std::memcpy(&halves, at, sizeof(halves));
    std::memcpy(packed, at + offsetof(block_q4_k, scales), sizeof(packed));
    const __m128 d_and_dmin = _mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(halves)));
    d_ = _mm256_broadcastss_ps(d_and_dmin);
    dmin_ = _mm256_broadcastss_ps(_mm_movehdup_ps(d_and_dmin));
    // Four bytes at a time what scale_of in kernels/block_values.hpp does for one.
    const std::uint32_t low_six = 0x3f3f3f3fu, low_four = 0x0f0f0f0fu, bits_4_5 = 0x30303030u;
    const std::uint32_t scales_0_3 = packed[0] & low_six;
    const std::uint32_t scales_4_7 = (packed[2] & low_four) | ((packed[0] >> 2) & bits_4_5);
    const std::uint32_t minima_0_3 = packed[1] & low_six;
    const std::uint32_t minima_4_7 = ((packed[2] >> 4) & low_four) | ((packed[1] >> 2) & bits_4_5);
    scales_ = in_order(scales_0_3, scales_4_7);
    min_ = _mm256_cvtepu8_epi32(in_order(minima_0_3, minima_4_7));
  }

  // A byte a block, in the order of lanes, then zeros.
  __m128i scales() const { return scales_; }

  // The lanes after the products, whose sums are already scaled, and after the minima.
  __m256 add(__m256i scaled_sums, const packed_tile& x, __m256 lanes) const {
    lanes = add_products(scaled_sums, d_, x, lanes);
    const __m256i minima = _mm256_madd_epi16(min_, load(x.sum));  // both fit 16 bits: min < 64, |sum| <= 32 * 127
    return _mm256_fnmadd_ps(_mm256_cvtepi32_ps(minima), _mm256_mul_ps(dmin_, _mm256_load_ps(x.d)), lanes);
  }

 private:
  static __m128i in_order(std::uint32_t blocks_0_3, std::uint32_t blocks_4_7) {
    const auto bytes = static_cast<long long>(blocks_0_3 | static_cast<std::uint64_t>(blocks_4_7) << 32);
    return _mm_shuffle_epi8(_mm_cvtsi64_si128(bytes), _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, -1, -1, -1, -1, -1, -1, -1, -1));
  }

  __m128i scales_;
  __m256i min_;  // 32 bits each
  __m256 d_, dmin_;
};

// 128 bytes of nibbles, turned.
struct packed_nibbles {
  __m256i r[4];
  explicit packed_nibbles(const std::byte* at) : r{load(at), load(at + 32), load(at + 64), load(at + 96)} {
    transpose(r[0], r[1], r[2], r[3]);
  }
};

template <class Sums>
class q4_k_tile {
 public:
  using sums = Sums;
  static constexpr std::size_t bytes = sizeof(block_q4_k);
  static constexpr const block_order& order = k_header::order;
  static constexpr int offset = 0;

  explicit q4_k_tile(const std::byte* at)
      : header_(at), scales_(Sums::make_block_scales(header_.scales())), w_(unpack(packed_nibbles(at + offsetof(block_q4_k, q)))) {}
  __m256 add(const packed_tile& x, __m256 lanes) const { return header_.add(Sums::dot_nibbles(w_, scales_, x), x, lanes); }

 private:
  static typename Sums::tile unpack(const packed_nibbles& n) {
    return Sums::make_tile({low_nibbles(n.r[0]), low_nibbles(n.r[1]), low_nibbles(n.r[2]), low_nibbles(n.r[3])},
                           {high_nibbles(n.r[0]), high_nibbles(n.r[1]), high_nibbles(n.r[2]), high_nibbles(n.r[3])});
  }

  k_header header_;
  typename Sums::block_scales scales_;
  typename Sums::tile w_;
};

template <class Sums>
class q5_k_tile {
 public:
  using sums = Sums;
  static constexpr std::size_t bytes = sizeof(block_q5_k);
  static constexpr const block_order& order = k_header::order;
  static constexpr int offset = 0;

  explicit q5_k_tile(const std::byte* at)
      : header_(at),
        scales_(Sums::make_scales(for_both_halves(header_.scales()))),
        w_(unpack(packed_nibbles(at + offsetof(block_q5_k, q)), load(at + offsetof(block_q5_k, high)))) {}
  __m256 add(const packed_tile& x, __m256 lanes) const { return header_.add(Sums::template dot<offset>(w_, scales_, x), x, lanes); }

 private:
  // The scale of a block is that of its first 16 values and of its second.
  static __m128i for_both_halves(__m128i scales) {
    return _mm_shuffle_epi32(scales, 0x50);  // dwords 0 0 1 1
  }

  // Bit b of high byte i belongs to value i of block b. Shifted by the lane's even block, it is bit 0 for that block, bit 1 for the
  // odd one beside it.
  static typename Sums::tile unpack(const packed_nibbles& n, __m256i high) {
    const __m256i even_block = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6), bit_4 = _mm256_set1_epi8(16);
    const __m256i values[4] = {_mm256_shuffle_epi32(high, 0x00), _mm256_shuffle_epi32(high, 0x55), _mm256_shuffle_epi32(high, 0xaa),
                               _mm256_shuffle_epi32(high, 0xff)};
    __m256i even[4], odd[4];
    for (int m = 0; m < 4; ++m) {
      const __m256i bits = _mm256_srlv_epi32(values[m], even_block);
      even[m] = _mm256_or_si256(low_nibbles(n.r[m]), _mm256_and_si256(_mm256_slli_epi32(bits, 4), bit_4));
      odd[m] = _mm256_or_si256(high_nibbles(n.r[m]), _mm256_and_si256(_mm256_slli_epi32(bits, 3), bit_4));
    }
    return Sums::make_tile(even, odd);
  }

  k_header header_;
  typename Sums::scales scales_;
  typename Sums::tile w_;
};

// Each half of a Q6_K block has four blocks of 32: the low nibbles of two make group 0, the high nibbles of the other two group 1.
template <class Sums>
class q6_k_tile {
 public:
  using sums = Sums;
  static constexpr std::size_t bytes = sizeof(block_q6_k);
  static constexpr block_order order = {0, 1, 4, 5, 2, 3, 6, 7};
  static constexpr int offset = 32;

  explicit q6_k_tile(const std::byte* at) : w_(unpack(at)) {
    const __m128i bytes_in_order = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + offsetof(block_q6_k, scales)));
    scale_ = Sums::make_scales(_mm_shuffle_epi8(bytes_in_order, _mm_setr_epi8(0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15)));
    std::uint16_t half;
    std::memcpy(&half, at + offsetof(block_q6_k, d), sizeof(half));
    d_ = broadcast_half(half);
  }
  __m256 add(const packed_tile& x, __m256 lanes) const { return add_products(Sums::template dot<offset>(w_, scale_, x), d_, x, lanes); }

 private:
  static typename Sums::tile unpack(const std::byte* at) {
    const packed_nibbles n(at + offsetof(block_q6_k, low));
    const __m256 high_0 = _mm256_castsi256_ps(load(at + offsetof(block_q6_k, high)));
    const __m256 high_1 = _mm256_castsi256_ps(load(at + offsetof(block_q6_k, high) + 32));
    const __m256i high[4] = {
        _mm256_castps_si256(_mm256_shuffle_ps(high_0, high_1, 0x00)), _mm256_castps_si256(_mm256_shuffle_ps(high_0, high_1, 0x55)),
        _mm256_castps_si256(_mm256_shuffle_ps(high_0, high_1, 0xaa)), _mm256_castps_si256(_mm256_shuffle_ps(high_0, high_1, 0xff))};
    const __m256i odd_block = _mm256_setr_epi32(0, 2, 0, 2, 0, 2, 0, 2), bits_4_5 = _mm256_set1_epi8(0x30);
    __m256i group_0[4], group_1[4];
    for (int m = 0; m < 4; ++m) {
      const __m256i bits = _mm256_srlv_epi32(high[m], odd_block);  // bits 0 and 1: group 0's, bits 4 and 5: group 1's
      group_0[m] = _mm256_or_si256(low_nibbles(n.r[m]), _mm256_and_si256(_mm256_slli_epi32(bits, 4), bits_4_5));
      group_1[m] = _mm256_or_si256(high_nibbles(n.r[m]), _mm256_and_si256(bits, bits_4_5));
    }
    return Sums::make_tile(group_0, group_1);
  }

  typename Sums::tile w_;
  typename Sums::scales scale_;
  __m256 d_;
};

}  // namespace
}  // namespace ebb::kernels::cpu

// kernels/cpu/x86/small_quants.hpp: tiles of the formats whose blocks hold 32 values: eight of their blocks are one tile.
//
// A block is brought into one register of 32 bytes in the order of its values; the turn into a tile is the same for all.
#pragma once
#include "kernels/cpu/x86/k_quants.hpp"

namespace ebb::kernels::cpu {
namespace {

// natural(at): the stored values of the block at `at`, unsigned but for Q8_0.
inline __m256i nibbles_of_32(const std::byte* q) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
  return low_nibbles(_mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1));
}

// Byte i gets 16 where bit i is set.
inline __m256i fifth_bits_of_32(const std::byte* high) {
  std::int32_t bits;
  std::memcpy(&bits, high, sizeof(bits));
  const __m256i byte_of_value = _mm256_setr_epi64x(0x0000000000000000, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit_of_value = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of_value);
  const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of_value), bit_of_value);
  return _mm256_and_si256(is_set, _mm256_set1_epi8(16));
}

struct q8_0_layout {
  using block = block_q8_0;
  static constexpr int offset = -1;  // none: signed
  static __m256i natural(const std::byte* at) { return load(at + offsetof(block, q)); }
};
struct q4_0_layout {
  using block = block_q4_0;
  static constexpr int offset = 8;
  static __m256i natural(const std::byte* at) { return nibbles_of_32(at + offsetof(block, q)); }
};
struct q4_1_layout {
  using block = block_q4_1;
  static constexpr int offset = 0;
  static __m256i natural(const std::byte* at) { return nibbles_of_32(at + offsetof(block, q)); }
};
struct q5_0_layout {
  using block = block_q5_0;
  static constexpr int offset = 16;
  static __m256i natural(const std::byte* at) {
    return _mm256_or_si256(nibbles_of_32(at + offsetof(block, q)), fifth_bits_of_32(at + offsetof(block, high)));
  }
};
struct q5_1_layout {
  using block = block_q5_1;
  static constexpr int offset = 0;
  static __m256i natural(const std::byte* at) {
    return _mm256_or_si256(nibbles_of_32(at + offsetof(block, q)), fifth_bits_of_32(at + offsetof(block, high)));
  }
};

template <class Sums, class Layout>
class small_tile_base {
 public:
  using sums = Sums;
  static constexpr std::size_t bytes = tile_blocks * sizeof(typename Layout::block);
  static constexpr block_order order = {0, 1, 2, 3, 4, 5, 6, 7};

 protected:
  static typename Sums::tile unpack(const std::byte* at) {
    __m256i group_0[4], group_1[4];
    for (std::size_t j = 0; j < 4; ++j) {
      group_0[j] = Layout::natural(at + j * sizeof(typename Layout::block));
      group_1[j] = Layout::natural(at + (j + 4) * sizeof(typename Layout::block));
    }
    transpose(group_0[0], group_0[1], group_0[2], group_0[3]);
    transpose(group_1[0], group_1[1], group_1[2], group_1[3]);
    return Sums::make_tile(group_0, group_1);
  }

  // The half `field` bytes into each of the eight blocks, as floats.
  static __m256 halves(const std::byte* at, std::size_t field) {
    alignas(16) std::uint16_t half[tile_blocks];
    for (std::size_t b = 0; b < tile_blocks; ++b) std::memcpy(&half[b], at + b * sizeof(typename Layout::block) + field, sizeof(half[b]));
    return load_halves(half);
  }
};

// x = d * (q - offset), and Q8_0.
template <class Sums, class Layout>
class centred_tile : public small_tile_base<Sums, Layout> {
  using base = small_tile_base<Sums, Layout>;
  static constexpr bool is_signed = Layout::offset < 0;

 public:
  static constexpr int offset = is_signed ? Sums::signed_offset : Layout::offset;
  explicit centred_tile(const std::byte* at) : w_(base::unpack(at)), d_(base::halves(at, offsetof(typename Layout::block, d))) {}
  __m256 add(const packed_tile& x, __m256 lanes) const { return add_products(dot(x), d_, x, lanes); }

 private:
  __m256i dot(const packed_tile& x) const {
    if constexpr (is_signed) {
      return Sums::dot_signed(w_, x);
    } else {
      return Sums::template dot<offset>(w_, x);
    }
  }

  typename Sums::tile w_;
  __m256 d_;
};

// x = d * q + m.
template <class Sums, class Layout>
class offset_tile : public small_tile_base<Sums, Layout> {
  using base = small_tile_base<Sums, Layout>;

 public:
  static constexpr int offset = Layout::offset;

  explicit offset_tile(const std::byte* at)
      : w_(base::unpack(at)),
        d_(base::halves(at, offsetof(typename Layout::block, d))),
        m_(base::halves(at, offsetof(typename Layout::block, m))) {}
  __m256 add(const packed_tile& x, __m256 lanes) const {
    lanes = add_products(Sums::template dot<offset>(w_, x), d_, x, lanes);
    return add_products(_mm256_load_si256(reinterpret_cast<const __m256i*>(x.sum)), m_, x, lanes);
  }

 private:
  typename Sums::tile w_;
  __m256 d_, m_;
};

}  // namespace
}  // namespace ebb::kernels::cpu

// kernels/cpu/x86/dpbusd.hpp: the integer sums of a tile with AVX-512 VNNI: four products a 32-bit lane, nothing saturates.
//
// A 512-bit register holds both groups of a tile for one m: group 0's two halves, then group 1's.
#pragma once
#include "kernels/cpu/x86/packed_activations.hpp"

namespace ebb::kernels::cpu {
namespace {

struct dpbusd {
  struct tile {
    __m512i q[4];  // [m]
  };
  using scales = __m512i;        // 32 bits each
  using block_scales = __m256i;  // likewise, one for all 32 values

  static tile make_tile(const __m256i (&group0)[4], const __m256i (&group1)[4]) {
    tile made;
    for (int m = 0; m < 4; ++m) made.q[m] = _mm512_inserti64x4(_mm512_castsi256_si512(group0[m]), group1[m], 1);
    return made;
  }

  // Of 16 signed bytes: four blocks' scales of their first 16 values, the same four's of their second, then both of group 1.
  static scales make_scales(__m128i bytes) { return _mm512_cvtepi8_epi32(bytes); }
  // Of eight signed bytes, one a block in the order of lanes.
  static block_scales make_block_scales(__m128i bytes) { return _mm256_cvtepi8_epi32(bytes); }

  static constexpr int signed_offset = 128;  // of weights that dot_signed takes

  // What packed_tile::correction holds of one group, made from sums over m of two neighbouring q.
  template <int offset>
  static __m256i correction(__m256i pair_sums) {
    return _mm256_madd_epi16(pair_sums, _mm256_set1_epi16(-offset));
  }

  // Sum of (w.q - offset) * x.q * scale, one sum a block. Weights are unsigned.
  template <int offset>
  static __m256i dot(const tile& w, const scales& scale, const packed_tile& x) {
    return join(_mm512_mullo_epi32(quad_sums<offset>(w, x), scale));
  }
  template <int offset>
  static __m256i dot(const tile& w, const packed_tile& x) {
    return join(quad_sums<offset>(w, x));
  }
  static __m256i dot_nibbles(const tile& w, block_scales scale, const packed_tile& x) {
    return _mm256_mullo_epi32(join(quad_sums<0>(w, x)), scale);
  }

  // Signed weights of the full range: flipping the top bit adds 128.
  static __m256i dot_signed(const tile& w, const packed_tile& x) {
    tile shifted;
    for (int m = 0; m < 4; ++m) shifted.q[m] = _mm512_xor_si512(w.q[m], _mm512_set1_epi8(-128));
    return dot<signed_offset>(shifted, x);
  }

 private:
  template <int offset>
  static __m512i quad_sums(const tile& w, const packed_tile& x) {
    __m512i sum = _mm512_setzero_si512();
    if constexpr (offset != 0) sum = _mm512_load_si512(x.correction);
    for (int m = 0; m < 4; ++m) sum = _mm512_dpbusd_epi32(sum, w.q[m], _mm512_load_si512(x.q[m]));
    return sum;
  }

  // Adds the two halves of each group's blocks.
  static __m256i join(__m512i sums) {
    const __m512i first_halves = _mm512_shuffle_i64x2(sums, sums, 0x08);   // 128-bit parts 0 and 2
    const __m512i second_halves = _mm512_shuffle_i64x2(sums, sums, 0x0d);  // parts 1 and 3
    return _mm256_add_epi32(_mm512_castsi512_si256(first_halves), _mm512_castsi512_si256(second_halves));
  }
};

}  // namespace
}  // namespace ebb::kernels::cpu

// kernels/cpu/x86/maddubs.hpp: the integer sums of a tile with AVX2's 8-bit multiply-add, exactly.
//
// maddubs multiplies unsigned weights by signed activations and adds neighbours in 16 bits, saturating: two products of weights
// up to 63 are at most 2 * 63 * 127 = 16002. Sums of those may wrap around, but what is left once the offset of the weights is taken
// off is the true sum, and that fits again: 8 values of |q| <= 32 give at most 8 * 32 * 127 = 32512, unsigned ones up to 31 31496.
#pragma once
#include "kernels/cpu/x86/packed_activations.hpp"

namespace ebb::kernels::cpu {
namespace {

struct maddubs {
  struct tile {
    __m256i q[4][2];  // [m][group], as in packed_tile
  };
  struct scales {
    __m256i group[2];  // 16 bits, each scale twice
  };
  using block_scales = __m256i;  // likewise, one for all 32 values

  static tile make_tile(const __m256i (&group0)[4], const __m256i (&group1)[4]) {
    return {{{group0[0], group1[0]}, {group0[1], group1[1]}, {group0[2], group1[2]}, {group0[3], group1[3]}}};
  }

  // Of 16 signed bytes: four blocks' scales of their first 16 values, the same four's of their second, then both of group 1.
  static scales make_scales(__m128i bytes) {
    return {{_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(bytes, bytes)), _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(bytes, bytes))}};
  }
  // Of eight signed bytes, one a block in the order of lanes.
  static block_scales make_block_scales(__m128i bytes) { return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(bytes, bytes)); }

  static constexpr int signed_offset = 0;  // of weights that dot_signed takes

  // What packed_tile::correction holds of one group, made from sums over m of two neighbouring q.
  template <int offset>
  static __m256i correction(__m256i pair_sums) {
    return _mm256_mullo_epi16(pair_sums, _mm256_set1_epi16(-offset));
  }

  // Sum of (w.q - offset) * x.q * scale, one sum a block. Weights are unsigned; offset and width as above.
  template <int offset>
  static __m256i dot(const tile& w, const scales& scale, const packed_tile& x) {
    const __m256i group0 = _mm256_madd_epi16(pair_sums<offset>(w, x, 0), scale.group[0]);
    const __m256i group1 = _mm256_madd_epi16(pair_sums<offset>(w, x, 1), scale.group[1]);
    return join(group0, group1);
  }
  template <int offset>
  static __m256i dot(const tile& w, const packed_tile& x) {
    const __m256i one = _mm256_set1_epi16(1);
    return dot<offset>(w, scales{{one, one}}, x);
  }

  // The same for weights of 4 bits: 16 products are at most 16 * 15 * 127 = 30480, so halves can be added before they are scaled.
  static __m256i dot_nibbles(const tile& w, block_scales scale, const packed_tile& x) {
    const __m256i group0 = pair_sums<0>(w, x, 0), group1 = pair_sums<0>(w, x, 1);
    const __m256i joined =
        _mm256_add_epi16(_mm256_permute2x128_si256(group0, group1, 0x20), _mm256_permute2x128_si256(group0, group1, 0x31));
    return _mm256_madd_epi16(joined, scale);
  }

  // Signed weights of the full range: |w| times x with the sign of w. |-128| is 128 unsigned, and x is never -128, so both are exact,
  // and a pair is at most 2 * 128 * 127 = 32512.
  static __m256i dot_signed(const tile& w, const packed_tile& x) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int g = 0; g < 2; ++g) {
      for (int m = 0; m < 4; ++m) {
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w.q[m][g]), _mm256_sign_epi8(load(x.q[m][g]), w.q[m][g]));
        sums[g] = _mm256_add_epi32(sums[g], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
      }
    }
    return join(sums[0], sums[1]);
  }

 private:
  template <int offset>
  static __m256i pair_sums(const tile& w, const packed_tile& x, int group) {
    __m256i sum = _mm256_maddubs_epi16(w.q[0][group], load(x.q[0][group]));
    for (int m = 1; m < 4; ++m) sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w.q[m][group], load(x.q[m][group])));
    if constexpr (offset != 0) sum = _mm256_add_epi16(sum, load(x.correction[group]));
    return sum;
  }

  // Adds the two halves of each group's blocks.
  static __m256i join(__m256i group0, __m256i group1) {
    return _mm256_add_epi32(_mm256_permute2x128_si256(group0, group1, 0x20), _mm256_permute2x128_si256(group0, group1, 0x31));
  }
};

}  // namespace
}  // namespace ebb::kernels::cpu

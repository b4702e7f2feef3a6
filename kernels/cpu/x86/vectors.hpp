// kernels/cpu/x86/vectors.hpp: small steps on 256-bit registers that several kernels share.
//
// Included by *_avx2.cpp and *_avx512.cpp only. As in all headers of this folder everything is in an anonymous namespace, so that
// each of those files has copies of its own (implementations.hpp says why).
#pragma once
#include <cstddef>
#include <cstdint>
#include <immintrin.h>

namespace ebb::kernels::cpu {
namespace {

// Turns four registers by 90 degrees within each 128-bit half: dword m of register j becomes dword j of register m.
inline void transpose(__m256i& r0, __m256i& r1, __m256i& r2, __m256i& r3) {
  const __m256i low01 = _mm256_unpacklo_epi32(r0, r1), low23 = _mm256_unpacklo_epi32(r2, r3);
  const __m256i high01 = _mm256_unpackhi_epi32(r0, r1), high23 = _mm256_unpackhi_epi32(r2, r3);
  r0 = _mm256_unpacklo_epi64(low01, low23);
  r1 = _mm256_unpackhi_epi64(low01, low23);
  r2 = _mm256_unpacklo_epi64(high01, high23);
  r3 = _mm256_unpackhi_epi64(high01, high23);
}

// ((0+4)+(2+6)) + ((1+5)+(3+7)), the order of lane_sum in kernels/exact_math.hpp.
inline float lane_sum(__m256 lanes) {
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));  // 0+4 1+5 2+6 3+7
  const __m128 half = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

// The same of eight registers at once: element i of the result is lane_sum(r[i]).
inline __m256 lane_sums(const __m256* r) {
  __m256 quarter[4], half[2];  // quarter[i]: the four sums of r[i], then those of r[i + 4]
  for (int i = 0; i < 4; ++i) {
    quarter[i] = _mm256_add_ps(_mm256_permute2f128_ps(r[i], r[i + 4], 0x20), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
  for (int i = 0; i < 2; ++i) {  // half[i]: even and odd sum of r[i], of r[i + 2], then of r[i + 4], of r[i + 6]
    half[i] = _mm256_add_ps(_mm256_shuffle_ps(quarter[i], quarter[i + 2], 0x44), _mm256_shuffle_ps(quarter[i], quarter[i + 2], 0xee));
  }
  const __m256 sums = _mm256_add_ps(_mm256_shuffle_ps(half[0], half[1], 0x88), _mm256_shuffle_ps(half[0], half[1], 0xdd));
  return _mm256_shuffle_ps(sums, sums, 0xd8);  // 0 2 1 3 to 0 1 2 3 in each half
}

// All bits set in the first `count` of eight lanes.
inline __m256i first_lanes(std::size_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// The first `count` of eight floats, then zeros; and the other way. Nothing beyond them is touched. A masked store is slow where no
// mask is needed.
inline __m256 load_first(const float* at, std::size_t count) {
  return count == 8 ? _mm256_loadu_ps(at) : _mm256_maskload_ps(at, first_lanes(count));
}
inline void store_first(float* at, std::size_t count, __m256 values) {
  if (count == 8) return _mm256_storeu_ps(at, values);
  _mm256_maskstore_ps(at, first_lanes(count), values);
}

// Halves to floats, exactly.
inline __m256 load_halves(const void* at) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(at))); }

// Repeats kernels/exact_math.hpp.
inline __m256 exact_exp(__m256 x) {
  x = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(-87.0f)), _mm256_set1_ps(87.0f));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0.693145752f), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-1.42860677e-6f), r);
  __m256 p = _mm256_set1_ps(1.98412698e-4f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.38888889e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.33333333e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.16666667e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.66666667e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}

}  // namespace
}  // namespace ebb::kernels::cpu

// kernels/cpu/rows_avx2.cpp: what scalar_rows.cpp defines, eight floats at a time.
#if defined(__x86_64__)
#include "kernels/cpu/implementations.hpp"
#include "kernels/cpu/x86/vectors.hpp"
#include <cfloat>

namespace ebb::kernels::cpu::avx2 {
namespace {

// Calls step(i, count) for each eight elements from i on, and for the `count` that are left at the end.
template <class Step>
void for_eights(std::size_t n, Step step) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) step(i, 8);
  if (i < n) step(i, n - i);
}

__m256 magnitude(__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }

float largest_lane(__m256 x) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// The scale of a block of 32.
float step_of(const __m256 (&x)[4]) {
  const __m256 largest = _mm256_max_ps(_mm256_max_ps(magnitude(x[0]), magnitude(x[1])), _mm256_max_ps(magnitude(x[2]), magnitude(x[3])));
  const float step = largest_lane(largest) / 127.0f;
  return step >= FLT_MIN ? step : 0.0f;
}

// rint(x / d) of a block as bytes. Pre: d > 0.
__m256i nearest_bytes(const __m256 (&x)[4], float d) {
  const __m256 divisor = _mm256_set1_ps(d);
  __m256i wide[4];
  for (int i = 0; i < 4; ++i) wide[i] = _mm256_cvtps_epi32(_mm256_div_ps(x[i], divisor));
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(wide[0], wide[1]), _mm256_packs_epi32(wide[2], wide[3]));
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));  // undoes packing by halves
}

std::int32_t sum_of_bytes(__m256i bytes) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
  const __m256i quads = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(quads), _mm256_extracti128_si256(quads, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0x55)));
}

}  // namespace

void quantize(const float* x, std::size_t n_values, std::int8_t* q, float* d, std::int32_t* sum) {
  for (std::size_t b = 0; b < n_values / activation_block; ++b) {
    const float* const block = x + b * activation_block;
    const __m256 values[4] = {_mm256_loadu_ps(block), _mm256_loadu_ps(block + 8), _mm256_loadu_ps(block + 16), _mm256_loadu_ps(block + 24)};
    d[b] = step_of(values);
    const __m256i bytes = d[b] > 0.0f ? nearest_bytes(values, d[b]) : _mm256_setzero_si256();
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + b * activation_block), bytes);
    sum[b] = sum_of_bytes(bytes);
  }
}

void residual(const float* x, const std::int8_t* q, const float* d, std::size_t n_values, float* r) {
  for (std::size_t i = 0; i < n_values; i += 8) {
    const __m256 bytes = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(q + i))));
    _mm256_storeu_ps(r + i, _mm256_fnmadd_ps(_mm256_set1_ps(d[i / activation_block]), bytes, _mm256_loadu_ps(x + i)));
  }
}

void rms_norm(const float* x, const float* weight, std::size_t n, float eps, float* y) {
  __m256 lanes = _mm256_setzero_ps();
  // Missing elements add 0 to lanes, which are sums of squares and so never -0.
  for_eights(n, [&](std::size_t i, std::size_t count) {
    const __m256 values = load_first(x + i, count);
    lanes = _mm256_fmadd_ps(values, values, lanes);
  });
  const float mean = lane_sum(lanes) / static_cast<float>(n);
  const __m128 root = _mm_sqrt_ss(_mm_set_ss(mean + eps));
  const __m256 inverse = _mm256_set1_ps(1.0f / _mm_cvtss_f32(root));
  for_eights(n, [&](std::size_t i, std::size_t count) {
    store_first(y + i, count, _mm256_mul_ps(_mm256_mul_ps(load_first(x + i, count), inverse), load_first(weight + i, count)));
  });
}

void rope(float* x, const float* cos, const float* sin, std::size_t half) {
  for_eights(half, [&](std::size_t i, std::size_t count) {
    const __m256 x0 = load_first(x + i, count), x1 = load_first(x + i + half, count);
    const __m256 c = load_first(cos + i, count), s = load_first(sin + i, count);
    store_first(x + i, count, _mm256_fmsub_ps(x0, c, _mm256_mul_ps(x1, s)));
    store_first(x + i + half, count, _mm256_fmadd_ps(x1, c, _mm256_mul_ps(x0, s)));
  });
}

void swiglu(const float* gate, const float* up, std::size_t n, float* y) {
  const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
  for_eights(n, [&](std::size_t i, std::size_t count) {
    const __m256 g = load_first(gate + i, count);
    const __m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, exact_exp(_mm256_xor_ps(g, sign))));
    store_first(y + i, count, _mm256_mul_ps(silu, load_first(up + i, count)));
  });
}

void add(const float* x, std::size_t n, float* y) {
  for_eights(n, [&](std::size_t i, std::size_t count) {
    store_first(y + i, count, _mm256_add_ps(load_first(y + i, count), load_first(x + i, count)));
  });
}

void combine(const float* out, std::size_t out_stride, const float* weight, std::size_t top_k, std::size_t n, float* y) {
  for_eights(n, [&](std::size_t i, std::size_t count) {
    __m256 sum = _mm256_setzero_ps();
    for (std::size_t k = 0; k < top_k; ++k)
      sum = _mm256_fmadd_ps(_mm256_set1_ps(weight[k]), load_first(out + k * out_stride + i, count), sum);
    store_first(y + i, count, sum);
  });
}

void to_half(const float* x, std::size_t n, std::uint16_t* y) {
  for_eights(n, [&](std::size_t i, std::size_t count) {
    alignas(16) std::uint16_t halves[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(halves), _mm256_cvtps_ph(load_first(x + i, count), _MM_FROUND_TO_NEAREST_INT));
    __builtin_memcpy(y + i, halves, count * sizeof(halves[0]));
  });
}

}  // namespace ebb::kernels::cpu::avx2
#endif

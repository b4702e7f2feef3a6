// kernels/cpu/attention_avx2.cpp: what scalar_attention.cpp defines: scores of eight positions at a time, outputs in stripes of 64.
#if defined(__x86_64__)
#include "kernels/cpu/implementations.hpp"
#include "kernels/cpu/x86/vectors.hpp"

namespace ebb::kernels::cpu::avx2 {
namespace {

// Lanes of q . k for `count` positions, one register each.
template <std::size_t count>
void dot_lanes(const float* q, const std::uint16_t* k, std::size_t head_dim, __m256* lanes) {
  for (std::size_t t = 0; t < count; ++t) lanes[t] = _mm256_setzero_ps();
  for (std::size_t i = 0; i < head_dim; i += 8) {
    const __m256 query = _mm256_loadu_ps(q + i);
    for (std::size_t t = 0; t < count; ++t) lanes[t] = _mm256_fmadd_ps(query, load_halves(k + t * head_dim + i), lanes[t]);
  }
}

// scores[t] = (q . k_t) * scale; returns the largest.
float score(const float* q, const std::uint16_t* k, std::size_t n_positions, std::size_t head_dim, float scale, float* scores) {
  std::size_t t = 0;
  for (; t + 8 <= n_positions; t += 8) {
    __m256 lanes[8];
    dot_lanes<8>(q, k + t * head_dim, head_dim, lanes);
    _mm256_storeu_ps(scores + t, _mm256_mul_ps(lane_sums(lanes), _mm256_set1_ps(scale)));
  }
  for (; t < n_positions; ++t) {
    __m256 lanes[1];
    dot_lanes<1>(q, k + t * head_dim, head_dim, lanes);
    scores[t] = lane_sum(lanes[0]) * scale;
  }
  float largest = scores[0];
  for (t = 1; t < n_positions; ++t) largest = scores[t] > largest ? scores[t] : largest;
  return largest;
}

std::size_t chunk_end(std::size_t begin, std::size_t n_positions) {
  return n_positions - begin < attention_chunk ? n_positions : begin + attention_chunk;
}

// p[t] = exact_exp(p[t] - largest), of positions [begin, end); returns their sum.
float exponentiate(float* p, std::size_t begin, std::size_t end, float largest) {
  __m256 lanes = _mm256_setzero_ps();
  for (std::size_t t = begin; t < end; t += 8) {
    const std::size_t count = end - t < 8 ? end - t : 8;
    const __m256 power = exact_exp(_mm256_sub_ps(load_first(p + t, count), _mm256_set1_ps(largest)));
    store_first(p + t, count, power);
    const __m256 present = _mm256_castsi256_ps(first_lanes(count));
    lanes = _mm256_add_ps(lanes, _mm256_and_ps(power, present));  // a missing one adds 0 to a sum that is >= 0
  }
  return lane_sum(lanes);
}

// out[i] = (sum over t of p[t] * v_t[i]) / sum, for 8 * n_vectors neighbouring i.
template <std::size_t n_vectors>
void mix(const float* p, const std::uint16_t* v, std::size_t n_positions, std::size_t head_dim, float sum, float* out) {
  __m256 total[n_vectors];
  for (__m256& of : total) of = _mm256_setzero_ps();
  for (std::size_t begin = 0; begin < n_positions; begin += attention_chunk) {
    __m256 mixed[n_vectors];
    for (__m256& part : mixed) part = _mm256_setzero_ps();
    for (std::size_t t = begin; t < chunk_end(begin, n_positions); ++t) {
      const __m256 share = _mm256_broadcast_ss(p + t);
      for (std::size_t j = 0; j < n_vectors; ++j) mixed[j] = _mm256_fmadd_ps(share, load_halves(v + t * head_dim + j * 8), mixed[j]);
    }
    for (std::size_t j = 0; j < n_vectors; ++j) total[j] = begin == 0 ? mixed[j] : _mm256_add_ps(total[j], mixed[j]);
  }
  for (std::size_t j = 0; j < n_vectors; ++j) _mm256_storeu_ps(out + j * 8, _mm256_div_ps(total[j], _mm256_set1_ps(sum)));
}

}  // namespace

void attention(const float* q, const std::uint16_t* k, const std::uint16_t* v, std::size_t n_positions, std::size_t head_dim, float scale,
               float* scores, float* out) {
  const float largest = score(q, k, n_positions, head_dim, scale, scores);
  float sum = 0.0f;
  for (std::size_t begin = 0; begin < n_positions; begin += attention_chunk) {
    const float of_chunk = exponentiate(scores, begin, chunk_end(begin, n_positions), largest);
    sum = begin == 0 ? of_chunk : sum + of_chunk;
  }
  std::size_t i = 0;
  for (; i + 64 <= head_dim; i += 64) mix<8>(scores, v + i, n_positions, head_dim, sum, out + i);
  for (; i < head_dim; i += 8) mix<1>(scores, v + i, n_positions, head_dim, sum, out + i);
}

}  // namespace ebb::kernels::cpu::avx2
#endif

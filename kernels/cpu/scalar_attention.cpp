// kernels/cpu/scalar_attention.cpp: the definition of one head of attention (kernels/attention.hpp).
#include "kernels/cpu/implementations.hpp"
#include "kernels/exact_math.hpp"
#include "kernels/half.hpp"
#include <algorithm>

namespace ebb::kernels::cpu::scalar {
namespace {

float dot(const float* q, const std::uint16_t* k, std::size_t head_dim) noexcept {
  float lane[8] = {};
  for (std::size_t i = 0; i < head_dim; ++i) lane[i % 8] = std::fma(q[i], half_to_float(k[i]), lane[i % 8]);
  return lane_sum(lane);
}

float sum_of(const float* p, std::size_t begin, std::size_t end) noexcept {
  float lane[8] = {};
  for (std::size_t t = begin; t < end; ++t) lane[t % 8] += p[t];
  return lane_sum(lane);
}

}  // namespace

void attention(const float* q, const std::uint16_t* k, const std::uint16_t* v, std::size_t n_positions, std::size_t head_dim, float scale,
               float* scores, float* out) {
  float largest = 0.0f;
  for (std::size_t t = 0; t < n_positions; ++t) {
    scores[t] = dot(q, k + t * head_dim, head_dim) * scale;
    largest = t == 0 || scores[t] > largest ? scores[t] : largest;
  }
  for (std::size_t t = 0; t < n_positions; ++t) scores[t] = exact_exp(scores[t] - largest);
  float sum = 0.0f;
  for (std::size_t begin = 0; begin < n_positions; begin += attention_chunk) {
    const std::size_t end = std::min<std::size_t>(begin + attention_chunk, n_positions);
    sum = begin == 0 ? sum_of(scores, begin, end) : sum + sum_of(scores, begin, end);
    for (std::size_t i = 0; i < head_dim; ++i) {
      float mixed = 0.0f;
      for (std::size_t t = begin; t < end; ++t) mixed = std::fma(scores[t], half_to_float(v[t * head_dim + i]), mixed);
      out[i] = begin == 0 ? mixed : out[i] + mixed;
    }
  }
  for (std::size_t i = 0; i < head_dim; ++i) out[i] = out[i] / sum;
}

}  // namespace ebb::kernels::cpu::scalar

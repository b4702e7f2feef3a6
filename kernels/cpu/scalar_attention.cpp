// kernels/cpu/scalar_attention.cpp: the definition of one head of attention (kernels/attention.hpp).
#include "kernels/cpu/implementations.hpp"
#include "kernels/exact_math.hpp"
#include "kernels/half.hpp"

namespace ebb::kernels::cpu::scalar {
namespace {

float dot(const float* q, const std::uint16_t* k, std::size_t head_dim) noexcept {
  float lane[8] = {};
  for (std::size_t i = 0; i < head_dim; ++i) lane[i % 8] = std::fma(q[i], half_to_float(k[i]), lane[i % 8]);
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
  float lane[8] = {};
  for (std::size_t t = 0; t < n_positions; ++t) {
    scores[t] = exact_exp(scores[t] - largest);
    lane[t % 8] += scores[t];
  }
  const float sum = lane_sum(lane);
  for (std::size_t i = 0; i < head_dim; ++i) {
    float mixed = 0.0f;
    for (std::size_t t = 0; t < n_positions; ++t) mixed = std::fma(scores[t], half_to_float(v[t * head_dim + i]), mixed);
    out[i] = mixed / sum;
  }
}

}  // namespace ebb::kernels::cpu::scalar

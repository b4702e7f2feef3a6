// kernels/cpu/scalar_rows.cpp: the definition of what is done to a row of floats: quantise, norm, rotate, combine, convert.
#include "kernels/cpu/implementations.hpp"
#include "kernels/exact_math.hpp"
#include "kernels/half.hpp"
#include <cfloat>

namespace ebb::kernels::cpu::scalar {
namespace {

float largest_magnitude(const float* x, std::size_t n) noexcept {
  float largest = 0.0f;
  for (std::size_t i = 0; i < n; ++i) largest = std::fabs(x[i]) > largest ? std::fabs(x[i]) : largest;
  return largest;
}

}  // namespace

void quantize(const float* x, std::size_t n_values, std::int8_t* q, float* d, std::int32_t* sum) {
  for (std::size_t b = 0; b < n_values / activation_block; ++b) {
    const float* const block = x + b * activation_block;
    const float step = largest_magnitude(block, activation_block) / 127.0f;
    d[b] = step >= FLT_MIN ? step : 0.0f;
    sum[b] = 0;
    for (std::size_t i = 0; i < activation_block; ++i) {
      const int nearest = d[b] > 0.0f ? static_cast<int>(std::rint(block[i] / d[b])) : 0;
      q[b * activation_block + i] = static_cast<std::int8_t>(nearest);
      sum[b] += nearest;
    }
  }
}

void residual(const float* x, const std::int8_t* q, const float* d, std::size_t n_values, float* r) {
  for (std::size_t i = 0; i < n_values; ++i) r[i] = std::fma(-d[i / activation_block], static_cast<float>(q[i]), x[i]);
}

void rms_norm(const float* x, const float* weight, std::size_t n, float eps, float* y) {
  float lane[8] = {};
  for (std::size_t i = 0; i < n; ++i) lane[i % 8] = std::fma(x[i], x[i], lane[i % 8]);
  const float mean = lane_sum(lane) / static_cast<float>(n);
  const float inverse = 1.0f / std::sqrt(mean + eps);
  for (std::size_t i = 0; i < n; ++i) y[i] = (x[i] * inverse) * weight[i];
}

void rope(float* x, const float* cos, const float* sin, std::size_t half) {
  for (std::size_t i = 0; i < half; ++i) {
    const float x0 = x[i], x1 = x[i + half];
    x[i] = std::fma(x0, cos[i], -(x1 * sin[i]));
    x[i + half] = std::fma(x1, cos[i], x0 * sin[i]);
  }
}

void swiglu(const float* gate, const float* up, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = exact_silu(gate[i]) * up[i];
}

void add(const float* x, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = y[i] + x[i];
}

void combine(const float* out, std::size_t out_stride, const float* weight, std::size_t top_k, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) {
    float sum = 0.0f;
    for (std::size_t k = 0; k < top_k; ++k) sum = std::fma(weight[k], out[k * out_stride + i], sum);
    y[i] = sum;
  }
}

void to_half(const float* x, std::size_t n, std::uint16_t* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = float_to_half(x[i]);
}

}  // namespace ebb::kernels::cpu::scalar

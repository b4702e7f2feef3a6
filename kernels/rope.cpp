#include "kernels/rope.hpp"
#include <algorithm>
#include <cmath>

namespace ebb::kernels {

void rope_angles(std::uint32_t position, double base, std::size_t half, float* cos, float* sin) {
  for (std::size_t i = 0; i < half; ++i) {
    const double theta = position * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
    cos[i] = static_cast<float>(std::cos(theta));
    sin[i] = static_cast<float>(std::sin(theta));
  }
}

void rope_table::angles(std::uint32_t position, float* cos, float* sin) {
  const std::size_t stride = 2 * half_;
  for (std::size_t next = known_.size() / stride; next <= position; ++next) {
    known_.resize((next + 1) * stride);
    rope_angles(static_cast<std::uint32_t>(next), base_, half_, &known_[next * stride], &known_[next * stride + half_]);
  }
  const float* const at = &known_[position * stride];
  std::copy_n(at, half_, cos);
  std::copy_n(at + half_, half_, sin);
}

}  // namespace ebb::kernels

#include "kernels/rope.hpp"
#include <cmath>

namespace ebb::kernels {

void rope_angles(std::uint32_t position, double base, std::size_t half, float* cos, float* sin) {
  for (std::size_t i = 0; i < half; ++i) {
    const double theta = position * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
    cos[i] = static_cast<float>(std::cos(theta));
    sin[i] = static_cast<float>(std::sin(theta));
  }
}

}  // namespace ebb::kernels

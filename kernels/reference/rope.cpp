#include "kernels/reference/reference.hpp"

namespace ebb::kernels::reference {

std::vector<double> rope(const float* x, const float* cos, const float* sin, std::size_t half) {
  std::vector<double> y(2 * half);
  for (std::size_t i = 0; i < half; ++i) {
    const double x0 = x[i], x1 = x[i + half];
    y[i] = x0 * cos[i] - x1 * sin[i];
    y[i + half] = x1 * cos[i] + x0 * sin[i];
  }
  return y;
}

}  // namespace ebb::kernels::reference

#include "kernels/reference/reference.hpp"
#include <cmath>

namespace ebb::kernels::reference {

std::vector<double> rms_norm(const float* x, const float* weight, std::size_t n, double eps) {
  double squares = 0.0;
  for (std::size_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * x[i];
  const double root = std::sqrt(squares / static_cast<double>(n) + eps);
  std::vector<double> y(n);
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] / root * weight[i];
  return y;
}

}  // namespace ebb::kernels::reference

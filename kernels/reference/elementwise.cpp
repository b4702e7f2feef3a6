#include "kernels/reference/reference.hpp"
#include <cmath>

namespace ebb::kernels::reference {

std::vector<double> swiglu(const float* gate, const float* up, std::size_t n) {
  std::vector<double> y(n);
  for (std::size_t i = 0; i < n; ++i) y[i] = gate[i] / (1.0 + std::exp(-static_cast<double>(gate[i]))) * up[i];
  return y;
}

std::vector<double> combine(const float* out, std::size_t out_stride, const float* weight, std::size_t top_k, std::size_t n) {
  std::vector<double> y(n);
  for (std::size_t k = 0; k < top_k; ++k) {
    for (std::size_t i = 0; i < n; ++i) y[i] += static_cast<double>(weight[k]) * out[k * out_stride + i];
  }
  return y;
}

}  // namespace ebb::kernels::reference

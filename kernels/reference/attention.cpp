#include "kernels/half.hpp"
#include "kernels/reference/reference.hpp"
#include <algorithm>
#include <cmath>

namespace ebb::kernels::reference {

std::vector<double> attention(const float* q, const std::uint16_t* k, const std::uint16_t* v, std::size_t n_positions, std::size_t head_dim,
                              double scale) {
  std::vector<double> share(n_positions);
  for (std::size_t t = 0; t < n_positions; ++t) {
    for (std::size_t i = 0; i < head_dim; ++i) share[t] += static_cast<double>(q[i]) * half_to_float(k[t * head_dim + i]);
    share[t] *= scale;
  }
  const double largest = *std::max_element(share.begin(), share.end());
  double sum = 0.0;
  for (double& s : share) sum += s = std::exp(s - largest);
  std::vector<double> out(head_dim);
  for (std::size_t t = 0; t < n_positions; ++t) {
    for (std::size_t i = 0; i < head_dim; ++i) out[i] += share[t] / sum * half_to_float(v[t * head_dim + i]);
  }
  return out;
}

}  // namespace ebb::kernels::reference

#include "kernels/dequantize.hpp"
#include "kernels/reference/reference.hpp"

namespace ebb::kernels::reference {

std::vector<double> values_of(const activations& x, std::size_t row) {
  std::vector<double> values(x.n_cols);
  for (std::size_t c = 0; c < x.n_cols; ++c) {
    const std::size_t at = row * x.n_cols + c;
    if (x.x != nullptr) {
      values[c] = x.x[at];
      continue;
    }
    for (std::uint32_t p = 0; p < x.n_parts(); ++p) values[c] += static_cast<double>(x.part[p].d[at / activation_block]) * x.part[p].q[at];
  }
  return values;
}

double dot(const weights& w, std::uint32_t row, const std::vector<double>& x) {
  std::vector<float> values(w.n_cols);
  dequantize(w.type, w.data + row * w.row_bytes(), w.n_cols, values.data());
  double sum = 0.0;
  for (std::size_t c = 0; c < w.n_cols; ++c) sum += values[c] * x[c];
  return sum;
}

}  // namespace ebb::kernels::reference

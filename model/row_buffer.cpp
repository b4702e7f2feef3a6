#include "model/row_buffer.hpp"

namespace ebb::model {

using kernels::activation_block;

row_buffer::row_buffer(std::uint32_t n_rows, std::uint32_t n_cols) : n_cols_(n_cols) {
  const std::size_t n_values = std::size_t{n_rows} * n_cols;
  x_.resize(n_values);
  left_over_.resize(n_values);
  for (part& of : parts_) {
    of.q.resize(n_values);
    of.d.resize(n_values / activation_block);
    of.sum.resize(n_values / activation_block);
  }
}

void row_buffer::quantise(const kernels::cpu::ops& by, std::uint32_t row, std::uint32_t col_begin, std::uint32_t col_end) noexcept {
  const std::size_t at = std::size_t{row} * n_cols_ + col_begin;
  const std::size_t block = at / activation_block;
  const std::size_t n_values = col_end - col_begin;
  const auto quantise_into = [&](const float* x, part& into) { by.quantize(x, n_values, &into.q[at], &into.d[block], &into.sum[block]); };
  quantise_into(&x_[at], parts_[0]);
  by.residual(&x_[at], &parts_[0].q[at], &parts_[0].d[block], n_values, &left_over_[at]);
  quantise_into(&left_over_[at], parts_[1]);
}

}  // namespace ebb::model

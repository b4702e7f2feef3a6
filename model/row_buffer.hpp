// model/row_buffer.hpp: rows of activations and both parts of their quantisation, as products read them.
#pragma once
#include "kernels/activations.hpp"
#include "kernels/cpu/ops.hpp"
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebb::model {

class row_buffer {
 public:
  // Pre: n_cols % 32 == 0.
  row_buffer(std::uint32_t n_rows, std::uint32_t n_cols);

  float* row(std::uint32_t index) noexcept { return x_.data() + std::size_t{index} * n_cols_; }
  std::uint32_t n_cols() const noexcept { return n_cols_; }

  // Quantises columns [col_begin, col_end), whole blocks, of a row that has been written. Rows are independent of each other.
  void quantise(const kernels::cpu::ops& by, std::uint32_t row, std::uint32_t col_begin, std::uint32_t col_end) noexcept;
  void quantise(const kernels::cpu::ops& by, std::uint32_t row) noexcept { quantise(by, row, 0, n_cols_); }

  // Without residuals where `coarse`.
  kernels::activations view(bool coarse = false) const noexcept {
    return {x_.data(), {parts_[0].view(), coarse ? kernels::quantised_rows{} : parts_[1].view()}, n_cols_};
  }

 private:
  struct part {
    std::vector<std::int8_t> q;
    std::vector<float> d;
    std::vector<std::int32_t> sum;
    kernels::quantised_rows view() const noexcept { return {q.data(), d.data(), sum.data()}; }
  };

  std::uint32_t n_cols_;
  std::vector<float> x_;
  std::array<part, 2> parts_;     // of the rows, and of their residuals
  std::vector<float> left_over_;  // [n_rows, n_cols], what the rows lose in the first part, on its way to the second
};

}  // namespace ebb::model

// kernels/cpu/x86/float_matmul.hpp: products with float weights: F32, F16, BF16.
//
// Element c goes to lane c mod 8, so eight columns are one fmaf a register. Its latency is hidden by four weight rows, and two
// activation rows where there are two, side by side.
#pragma once
#include "kernels/cpu/x86/vectors.hpp"
#include "kernels/matmul.hpp"
#include <cstring>

namespace ebb::kernels::cpu {
namespace {

// Eight weights as floats, exactly.
struct f32_values {
  using stored = float;
  static __m256 load(const void* at) { return _mm256_loadu_ps(static_cast<const float*>(at)); }
};
struct f16_values {
  using stored = std::uint16_t;
  static __m256 load(const void* at) { return load_halves(at); }
};
struct bf16_values {
  using stored = std::uint16_t;
  static __m256 load(const void* at) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(at)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
};

// The first `count` of eight values, then zeros; nothing beyond them is read.
template <class Values>
__m256 load_padded(const void* at, std::size_t count) {
  typename Values::stored padded[8] = {};
  std::memcpy(padded, at, count * sizeof(typename Values::stored));
  return Values::load(padded);
}

// y[i][r] for n_x rows of activations and n_w rows of weights.
template <class Values, int n_w, int n_x>
void float_dots(const std::byte* w, std::size_t w_row_bytes, const float* const* x, std::size_t n_cols, float* const* y) {
  __m256 lanes[n_w][n_x];
  for (auto& of_row : lanes) {
    for (__m256& lane : of_row) lane = _mm256_setzero_ps();
  }
  std::size_t c = 0;
  for (; c + 8 <= n_cols; c += 8) {
    for (int r = 0; r < n_w; ++r) {
      const __m256 weight = Values::load(w + static_cast<std::size_t>(r) * w_row_bytes + c * sizeof(typename Values::stored));
      for (int i = 0; i < n_x; ++i) lanes[r][i] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(x[i] + c), lanes[r][i]);
    }
  }
  if (c < n_cols) {
    // A lane may be -0, to which even 0 * 0 must not be added.
    const __m256 present = _mm256_castsi256_ps(first_lanes(n_cols - c));
    for (int r = 0; r < n_w; ++r) {
      const __m256 weight =
          load_padded<Values>(w + static_cast<std::size_t>(r) * w_row_bytes + c * sizeof(typename Values::stored), n_cols - c);
      for (int i = 0; i < n_x; ++i) {
        const __m256 added = _mm256_fmadd_ps(weight, load_first(x[i] + c, n_cols - c), lanes[r][i]);
        lanes[r][i] = _mm256_blendv_ps(lanes[r][i], added, present);
      }
    }
  }
  for (int r = 0; r < n_w; ++r) {
    for (int i = 0; i < n_x; ++i) y[i][r] = lane_sum(lanes[r][i]);
  }
}

// All rows of the job for the n_x activation rows from `first` on.
template <class Values, int n_x>
void float_rows(const matmul_job& job, std::size_t row_begin, std::size_t row_end, std::size_t first) {
  const std::size_t w_row_bytes = bytes_of(job.w.type, job.w.n_cols);
  const float* x[n_x];
  float* y[n_x];
  for (std::size_t i = 0; i < n_x; ++i) {
    const std::size_t x_row = job.x_row != nullptr ? job.x_row[first + i] : first + i;
    const std::size_t y_row = job.y_row != nullptr ? job.y_row[first + i] : first + i;
    x[i] = job.x.x + x_row * job.x.n_cols;
    y[i] = job.y + y_row * job.y_stride + row_begin;
  }
  const std::byte* w = job.w.data + row_begin * w_row_bytes;
  const auto advance = [&](std::size_t rows) {
    w += rows * w_row_bytes;
    for (float*& of_row : y) of_row += rows;
  };
  std::size_t left = row_end - row_begin;
  for (; left >= 4; left -= 4, advance(4)) float_dots<Values, 4, n_x>(w, w_row_bytes, x, job.w.n_cols, y);
  for (; left > 0; --left, advance(1)) float_dots<Values, 1, n_x>(w, w_row_bytes, x, job.w.n_cols, y);
}

template <class Values>
void float_matmul(const matmul_job& job) {
  constexpr std::size_t rows_in_group = 32;  // which stay in the L2 cache while all activation rows meet them
  for (std::size_t r = job.row_begin; r < job.row_end; r += rows_in_group) {
    const std::size_t end = r + rows_in_group < job.row_end ? r + rows_in_group : job.row_end;
    std::size_t i = 0;
    for (; i + 2 <= job.n; i += 2) float_rows<Values, 2>(job, r, end, i);
    if (i < job.n) float_rows<Values, 1>(job, r, end, i);
  }
}

}  // namespace
}  // namespace ebb::kernels::cpu

// kernels/cpu/scalar_matmul.cpp: the definition of a product with quantised or float weights (kernels/matmul.hpp), as plainly as it goes.
#include "config/assert.hpp"
#include "kernels/block_values.hpp"
#include "kernels/cpu/implementations.hpp"
#include "kernels/exact_math.hpp"
#include <cmath>

namespace ebb::kernels::cpu::scalar {
namespace {

// A block of 32 activations.
struct x_block {
  const std::int8_t* q;
  float d;
  std::int32_t sum;
};

// Sum over `count` values of the weight's block from `begin` on, times as many activations from `q` on.
template <class Block>
std::int32_t integer_dot(const Block& w, unsigned begin, unsigned count, const std::int8_t* q) noexcept {
  std::int32_t sum = 0;
  for (unsigned i = 0; i < count; ++i) sum += quant(w, begin + i) * q[i];
  return sum;
}

// lane_after(w, j, x, lane): the lane once the 32 values of sub-block j of a weight's block have met the activations x.
template <centred_block Block>
float lane_after(const Block& w, unsigned, const x_block& x, float lane) noexcept {
  return std::fma(static_cast<float>(integer_dot(w, 0, 32, x.q)), half_to_float(w.d) * x.d, lane);
}

template <offset_block Block>
float lane_after(const Block& w, unsigned, const x_block& x, float lane) noexcept {
  lane = std::fma(static_cast<float>(integer_dot(w, 0, 32, x.q)), half_to_float(w.d) * x.d, lane);
  return std::fma(static_cast<float>(x.sum), half_to_float(w.m) * x.d, lane);
}

template <scaled_block Block>
float lane_after(const Block& w, unsigned j, const x_block& x, float lane) noexcept {
  const auto [scale, min] = scale_of(w.scales, j);
  lane = std::fma(static_cast<float>(integer_dot(w, j * 32, 32, x.q) * scale), half_to_float(w.d) * x.d, lane);
  return std::fma(-static_cast<float>(x.sum * min), half_to_float(w.dmin) * x.d, lane);
}

float lane_after(const block_q6_k& w, unsigned j, const x_block& x, float lane) noexcept {
  const unsigned begin = j * 32;
  const std::int32_t isum =
      scale_of(w, begin) * integer_dot(w, begin, 16, x.q) + scale_of(w, begin + 16) * integer_dot(w, begin + 16, 16, x.q + 16);
  return std::fma(static_cast<float>(isum), half_to_float(w.d) * x.d, lane);
}

template <class Block>
float quantised_dot(const std::byte* row, const activations& x, std::size_t x_row, unsigned sub_blocks) noexcept {
  const std::size_t n_blocks = x.n_cols / activation_block;
  float lane[8] = {};
  for (std::size_t b = 0; b < n_blocks; ++b) {
    const std::size_t at = x_row * n_blocks + b;
    const Block w = load_block<Block>(row, b / sub_blocks);
    for (std::uint32_t p = 0; p < x.n_parts(); ++p) {
      const x_block meets{x.part[p].q + at * activation_block, x.part[p].d[at], x.part[p].sum[at]};
      lane[b % 8] = lane_after(w, static_cast<unsigned>(b % sub_blocks), meets, lane[b % 8]);
    }
  }
  return lane_sum(lane);
}

template <class Stored, float (*to_float)(Stored)>
float float_dot(const std::byte* row, const activations& x, std::size_t x_row, unsigned) noexcept {
  const float* const values = x.x + x_row * x.n_cols;
  float lane[8] = {};
  for (std::size_t c = 0; c < x.n_cols; ++c) lane[c % 8] = std::fma(to_float(load_block<Stored>(row, c)), values[c], lane[c % 8]);
  return lane_sum(lane);
}

float as_it_is(float stored) noexcept { return stored; }

// One row of weights times one row of activations; the last argument is the number of blocks of 32 in a block of the format.
using dot_fn = float (*)(const std::byte* row, const activations& x, std::size_t x_row, unsigned sub_blocks);

dot_fn dot_of(format type) noexcept {
  switch (type) {
    case format::f32: return float_dot<float, as_it_is>;
    case format::f16: return float_dot<std::uint16_t, half_to_float>;
    case format::bf16: return float_dot<std::uint16_t, bf16_to_float>;
    case format::q8_0: return quantised_dot<block_q8_0>;
    case format::q4_0: return quantised_dot<block_q4_0>;
    case format::q4_1: return quantised_dot<block_q4_1>;
    case format::q5_0: return quantised_dot<block_q5_0>;
    case format::q5_1: return quantised_dot<block_q5_1>;
    case format::q4_k: return quantised_dot<block_q4_k>;
    case format::q5_k: return quantised_dot<block_q5_k>;
    case format::q6_k: return quantised_dot<block_q6_k>;
    default: assert_failed("a format with has_kernels has a case here", __FILE__, __LINE__);
  }
}

}  // namespace

void matmul(const matmul_job& job) {
  check(job);
  const dot_fn dot = dot_of(job.w.type);
  const std::size_t row_bytes = job.w.row_bytes();
  const unsigned sub_blocks = info(job.w.type).values_per_block / activation_block;
  for (std::uint32_t i = 0; i < job.n; ++i) {
    const std::size_t x_row = job.x_row != nullptr ? job.x_row[i] : i;
    const std::size_t y_row = job.y_row != nullptr ? job.y_row[i] : i;
    for (std::uint32_t r = job.row_begin; r < job.row_end; ++r) {
      job.y[y_row * job.y_stride + r] = dot(job.w.data + r * row_bytes, job.x, x_row, sub_blocks);
    }
  }
}

}  // namespace ebb::kernels::cpu::scalar

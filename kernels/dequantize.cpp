#include "kernels/dequantize.hpp"
#include "config/assert.hpp"
#include "kernels/block_values.hpp"

namespace ebb::kernels {
namespace {

template <class Block>
void expand(const std::byte* row, std::size_t n_values, unsigned values_per_block, float* y) noexcept {
  for (std::size_t b = 0; b < n_values / values_per_block; ++b) {
    const Block block = load_block<Block>(row, b);
    for (unsigned i = 0; i < values_per_block; ++i) *y++ = value(block, i);
  }
}

void convert(const std::byte* row, std::size_t n_values, float (*to_float)(std::uint16_t), float* y) noexcept {
  for (std::size_t i = 0; i < n_values; ++i) y[i] = to_float(load_block<std::uint16_t>(row, i));
}

}  // namespace

void dequantize(format type, const std::byte* row, std::size_t n_values, float* y) noexcept {
  const format_info& layout = info(type);
  EBB_ASSERT(layout.has_kernels);
  EBB_ASSERT(n_values % layout.values_per_block == 0);
  const unsigned values = layout.values_per_block;
  switch (type) {
    case format::f32: std::memcpy(y, row, n_values * sizeof(float)); return;
    case format::f16: return convert(row, n_values, half_to_float, y);
    case format::bf16: return convert(row, n_values, bf16_to_float, y);
    case format::q8_0: return expand<block_q8_0>(row, n_values, values, y);
    case format::q4_0: return expand<block_q4_0>(row, n_values, values, y);
    case format::q4_1: return expand<block_q4_1>(row, n_values, values, y);
    case format::q5_0: return expand<block_q5_0>(row, n_values, values, y);
    case format::q5_1: return expand<block_q5_1>(row, n_values, values, y);
    case format::q4_k: return expand<block_q4_k>(row, n_values, values, y);
    case format::q5_k: return expand<block_q5_k>(row, n_values, values, y);
    case format::q6_k: return expand<block_q6_k>(row, n_values, values, y);
    default: assert_failed("a format with has_kernels has a case here", __FILE__, __LINE__);
  }
}

}  // namespace ebb::kernels

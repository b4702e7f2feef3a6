// kernels/attention.hpp: one head of one query over its cached positions: out = sum over t of softmax(scale * q . k_t) * v_t
//
//   q, out [head_dim] float      k, v [n_positions, head_dim] half, row-major      scores [n_positions] float, scratch
//   head_dim % 8 == 0, n_positions >= 1
//
// Order: q . k_t in 8 lanes, element i to lane i mod 8 by fmaf, tree of matmul.hpp, then * scale. m = max over t.
//   p_t = exact_exp(s_t - m). Positions are cut into chunks of attention_chunk, from 0. Of a chunk: sum of p: lane t mod 8 by +, tree of
//   matmul.hpp; mix[i]: fmaf(p_t, v_t[i], mix[i]), t ascending from +0. Sums and mixes of the chunks are added in ascending order, the first
//   as it is; then mix[i] / sum. Halves become floats exactly. So chunks may be computed apart, and a long context is no one long chain.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ebb::kernels {

inline constexpr std::uint32_t attention_chunk = 256;  // a multiple of 8

using attention_fn = void (*)(const float* q, const std::uint16_t* k, const std::uint16_t* v, std::size_t n_positions,
                              std::size_t head_dim, float scale, float* scores, float* out);

}  // namespace ebb::kernels

// kernels/attention.hpp: one head of one query over its cached positions: out = sum over t of softmax(scale * q . k_t) * v_t
//
//   q, out [head_dim] float      k, v [n_positions, head_dim] half, row-major      scores [n_positions] float, scratch
//   head_dim % 8 == 0, n_positions >= 1
//
// Order: q . k_t in 8 lanes, element i to lane i mod 8 by fmaf, tree of matmul.hpp, then * scale. m = max over t.
//   p_t = exact_exp(s_t - m). Sum of p: lane t mod 8 by +, tree of matmul.hpp. out[i]: fmaf(p_t, v_t[i], out[i]), t ascending from 0,
//   then out[i] / sum. Halves become floats exactly.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ebb::kernels {

using attention_fn = void (*)(const float* q, const std::uint16_t* k, const std::uint16_t* v, std::size_t n_positions,
                              std::size_t head_dim, float scale, float* scores, float* out);

}  // namespace ebb::kernels

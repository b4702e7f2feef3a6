// kernels/elementwise.hpp: the products without a sum over columns.
//
//   swiglu     y[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exact_exp(-x))      y may be gate or up
//   add        y[i] = y[i] + x[i]
//   combine    y[i] = sum over k of weight[k] * out[k, i]: from 0, fmaf in order of k (rank order)      out [top_k, out_stride]
//   to_half    y[i] = half nearest to x[i], ties to even
#pragma once
#include <cstddef>
#include <cstdint>

namespace ebb::kernels {

using swiglu_fn = void (*)(const float* gate, const float* up, std::size_t n, float* y);
using add_fn = void (*)(const float* x, std::size_t n, float* y);
using combine_fn = void (*)(const float* out, std::size_t out_stride, const float* weight, std::size_t top_k, std::size_t n, float* y);
using to_half_fn = void (*)(const float* x, std::size_t n, std::uint16_t* y);

}  // namespace ebb::kernels

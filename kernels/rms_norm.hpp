// kernels/rms_norm.hpp: y[i] = (x[i] * inv) * weight[i],  inv = 1 / sqrt(mean of x^2 + eps)
//
//   x, y, weight [n] float; y may be x. Sum of squares: lane i mod 8 by fmaf(x, x, lane), lanes added by the tree of matmul.hpp;
//   mean = sum / float(n), then +, sqrt and 1 / each rounded once.
#pragma once
#include <cstddef>

namespace ebb::kernels {

using rms_norm_fn = void (*)(const float* x, const float* weight, std::size_t n, float eps, float* y);

}  // namespace ebb::kernels

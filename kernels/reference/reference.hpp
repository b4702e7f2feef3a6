// kernels/reference/reference.hpp: what every operation means, in double and with no thought of speed: the oracles of the tests.
//
// Weights are dequantised and activations are given as the doubles they stand for (d * q), so these functions know nothing of
// blocks, lanes or the order of sums.
#pragma once
#include "kernels/activations.hpp"
#include "kernels/matmul.hpp"
#include <cstdint>
#include <vector>

namespace ebb::kernels::reference {

// The values of row `row` of x: those of x.x, or d * q where there is none, summed over the parts.
std::vector<double> values_of(const activations& x, std::size_t row);

// Sum over c of weight[row, c] * x[c]. Pre: x has w.n_cols values.
double dot(const weights& w, std::uint32_t row, const std::vector<double>& x);

// The twins of kernels/{rms_norm,rope,attention,elementwise,router}.hpp, with the same shapes.
std::vector<double> rms_norm(const float* x, const float* weight, std::size_t n, double eps);
std::vector<double> rope(const float* x, const float* cos, const float* sin, std::size_t half);
std::vector<double> attention(const float* q, const std::uint16_t* k, const std::uint16_t* v, std::size_t n_positions, std::size_t head_dim,
                              double scale);
std::vector<double> swiglu(const float* gate, const float* up, std::size_t n);
std::vector<double> combine(const float* out, std::size_t out_stride, const float* weight, std::size_t top_k, std::size_t n);

struct choice {
  std::uint32_t index;
  double weight;
};
std::vector<choice> route(const float* logits, std::size_t n_experts, std::size_t top_k);

}  // namespace ebb::kernels::reference

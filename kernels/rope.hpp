// kernels/rope.hpp: rotary position embedding of one head, in place: pairs (i, i + half)
//
//   x0' = fmaf(x0, cos[i], -(x1 * sin[i]))      x1' = fmaf(x1, cos[i], x0 * sin[i])      x0 = x[i], x1 = x[i + half]
//   x [>= 2 * half] float; values from 2 * half on pass unturned. cos, sin [half] float.
//
// rope_angles fills cos and sin for a position, in double and rounded once: theta_i = position * base^(-2 i / (2 half)).
// They are computed on the host and handed to every card, so placement cannot change them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebb::kernels {

using rope_fn = void (*)(float* x, const float* cos, const float* sin, std::size_t half);

void rope_angles(std::uint32_t position, double base, std::size_t half, float* cos, float* sin);

// The same, each position computed once. One thread at a time.
class rope_table {
 public:
  rope_table(double base, std::size_t half) : base_(base), half_(half) {}
  void angles(std::uint32_t position, float* cos, float* sin);

 private:
  double base_;
  std::size_t half_;
  std::vector<float> known_;  // [positions so far, 2, half]
};

}  // namespace ebb::kernels

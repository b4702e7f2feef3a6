#include "kernels/reference/reference.hpp"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace ebb::kernels::reference {

// Softmax over all experts, the best top_k of it, made to add up to 1.
std::vector<choice> route(const float* logits, std::size_t n_experts, std::size_t top_k) {
  std::vector<std::uint32_t> ranked(n_experts);
  std::iota(ranked.begin(), ranked.end(), 0u);
  std::stable_sort(ranked.begin(), ranked.end(), [&](std::uint32_t a, std::uint32_t b) { return logits[a] > logits[b]; });
  double all = 0.0, chosen = 0.0;
  for (std::size_t e = 0; e < n_experts; ++e) all += std::exp(static_cast<double>(logits[e]));
  std::vector<choice> best;
  for (std::size_t k = 0; k < top_k; ++k) {
    best.push_back({ranked[k], std::exp(static_cast<double>(logits[ranked[k]])) / all});
    chosen += best.back().weight;
  }
  for (choice& each : best) each.weight /= chosen;
  return best;
}

}  // namespace ebb::kernels::reference

#include "kernels/router.hpp"
#include "config/assert.hpp"
#include "kernels/exact_math.hpp"

namespace ebb::kernels {
namespace {

// Keeps index[0, count) in rank order and lets `candidate` in where it belongs, dropping the last if there is no room.
// Candidates come in ascending order, so of equal logits the one already there stays ahead.
std::size_t insert_ranked(const float* logits, std::uint32_t candidate, std::size_t count, std::size_t top_k,
                          std::uint32_t* index) noexcept {
  std::size_t place = count;
  while (place > 0 && logits[candidate] > logits[index[place - 1]]) --place;
  if (place == top_k) return count;
  const std::size_t grown = count < top_k ? count + 1 : count;
  for (std::size_t k = grown - 1; k > place; --k) index[k] = index[k - 1];
  index[place] = candidate;
  return grown;
}

}  // namespace

void route(const float* logits, std::size_t n_experts, std::size_t top_k, std::uint32_t* index, float* weight) noexcept {
  EBB_ASSERT(top_k >= 1);
  EBB_ASSERT(top_k <= n_experts);
  std::size_t count = 0;
  for (std::uint32_t e = 0; e < n_experts; ++e) count = insert_ranked(logits, e, count, top_k, index);
  float sum = 0.0f;
  for (std::size_t k = 0; k < top_k; ++k) {
    weight[k] = exact_exp(logits[index[k]] - logits[index[0]]);
    sum += weight[k];
  }
  for (std::size_t k = 0; k < top_k; ++k) weight[k] /= sum;
}

}  // namespace ebb::kernels

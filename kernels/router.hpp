// kernels/router.hpp: which experts a row goes to, and with what weights.
//
//   logits [n_experts] float -> index [top_k], weight [top_k], in rank order: larger logit first, of equal ones the smaller index.
//   softmax over the chosen logits (what softmax over all and renormalising gives): p_k = exact_exp(l_k - l_0), sum in rank order,
//   weight_k = p_k / sum.
// The same code for every instruction set. Pre: 1 <= top_k <= n_experts (asserts).
#pragma once
#include <cstddef>
#include <cstdint>

namespace ebb::kernels {

void route(const float* logits, std::size_t n_experts, std::size_t top_k, std::uint32_t* index, float* weight) noexcept;

}  // namespace ebb::kernels

// tools/router_skew.hpp: how unevenly a router must be made to pick, so that its hottest experts get a given share of the picks.
//
// A row of a router with entries of deviation s / sqrt(d_model) gives a logit of deviation s, whatever the (normalised) activations
// are: so experts whose rows are longer are often among the highest, without any direction that the activations would have to have.
// The deviation of the expert of rank r of n is e^(-steepness * r / (n - 1)), scaled to a mean square of 1. What share the hottest
// quarter gets is found by drawing logits, and the steepness by bisection.
//
// An expert is picked for at most about half of the tokens (its logit must be above that of most, and is negative as often as not),
// so with few experts, of which many are picked, a share may be out of reach.
#pragma once
#include "config/result.hpp"
#include <cstdint>
#include <span>
#include <vector>

namespace ebb::tools {

// How many experts the hottest quarter has: a quarter, rounded up.
constexpr std::uint32_t hottest_quarter(std::uint32_t n_experts) noexcept { return (n_experts + 3) / 4; }

// Deviations of the logits by rank, hottest first. `share`: of the picks, for the hottest quarter.
// Error: bad_value, with the shares that can be reached. Pre: 1 <= top_k <= n_experts.
result<std::vector<float>> router_deviations(std::uint32_t n_experts, std::uint32_t top_k, double share);

// The share of the picks that the first quarter of such experts gets.
double share_of_hottest(std::span<const float> deviations, std::uint32_t top_k);

}  // namespace ebb::tools

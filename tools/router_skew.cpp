#include "tools/router_skew.hpp"
#include "config/assert.hpp"
#include "kernels/exact_math.hpp"
#include "tools/counted_random.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>

namespace ebb::tools {
namespace {

constexpr float steepness_max = 8.0f;        // the coldest expert's logits are a three-thousandth of the hottest's: steeper changes nothing
constexpr int bisections = 16;               // down to a steepness of 0.0002
constexpr std::uint32_t draws_wanted = 1u << 19;  // logits in all: a share comes out within half a percent
constexpr double tolerance = 0.005;          // of a share, at the ends of what can be reached

std::vector<float> deviations_of(std::uint32_t n_experts, float steepness) {
  std::vector<float> deviations(n_experts);
  float squares = 0;
  for (std::uint32_t rank = 0; rank < n_experts; ++rank) {
    const float along = n_experts > 1 ? static_cast<float>(rank) / static_cast<float>(n_experts - 1) : 0.0f;
    deviations[rank] = kernels::exact_exp(-steepness * along);
    squares += deviations[rank] * deviations[rank];
  }
  const float scale = 1.0f / std::sqrt(squares / static_cast<float>(n_experts));
  for (float& deviation : deviations) deviation *= scale;
  return deviations;
}

std::string two_digits(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", share);
  return text;
}

}  // namespace

double share_of_hottest(std::span<const float> deviations, std::uint32_t top_k) {
  const auto n_experts = static_cast<std::uint32_t>(deviations.size());
  EBB_ASSERT(top_k >= 1);
  EBB_ASSERT(top_k <= n_experts);
  const std::uint32_t n_hot = hottest_quarter(n_experts), n_draws = std::clamp(draws_wanted / n_experts, 64u, 8192u);
  counted_random random({number_of("router_skew")});  // the same for every steepness, so that the share rises with it
  std::vector<float> logits(n_experts), sorted;
  std::uint64_t picked_hot = 0;
  for (std::uint32_t draw = 0; draw < n_draws; ++draw) {
    for (std::uint32_t expert = 0; expert < n_experts; ++expert) logits[expert] = deviations[expert] * random.normal();
    sorted = logits;
    std::ranges::nth_element(sorted, sorted.begin() + (top_k - 1), std::greater());
    const float last_picked = sorted[top_k - 1];
    picked_hot += static_cast<std::uint64_t>(std::count_if(logits.begin(), logits.begin() + n_hot, [=](float logit) { return logit >= last_picked; }));
  }
  return static_cast<double>(picked_hot) / (static_cast<double>(n_draws) * top_k);
}

result<std::vector<float>> router_deviations(std::uint32_t n_experts, std::uint32_t top_k, double share) {
  const auto share_at = [&](float steepness) { return share_of_hottest(deviations_of(n_experts, steepness), top_k); };
  const double least = static_cast<double>(hottest_quarter(n_experts)) / n_experts, most = share_at(steepness_max);
  if (!(share >= least - tolerance && share <= most + tolerance)) {
    return fail(errc::bad_value, "skew " + two_digits(share) + ": the hottest quarter of " + std::to_string(n_experts) + " experts, of which " +
                                     std::to_string(top_k) + " are picked, can be given a share of " + two_digits(least) + " (even) to " +
                                     two_digits(most) + " of the picks");
  }
  float below = 0, above = steepness_max;
  for (int i = 0; i < bisections; ++i) {
    const float middle = (below + above) / 2;
    (share_at(middle) < share ? below : above) = middle;
  }
  return deviations_of(n_experts, above);
}

}  // namespace ebb::tools

#include "model/logprobs.hpp"
#include "config/assert.hpp"
#include <algorithm>
#include <cmath>
#include <limits>

namespace ebb::model {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// Ids come in ascending order, so that of equal logits the first stays in front.
std::vector<token_id> likeliest_of(std::span<const float> logits, std::size_t count_max) {
  std::vector<token_id> best;
  if (count_max == 0) return best;
  best.reserve(count_max + 1);
  float threshold = minus_infinity;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > threshold)) continue;
    const auto less_likely = [&](float logit, token_id other) { return logit > logits[other]; };
    best.insert(std::upper_bound(best.begin(), best.end(), logits[i], less_likely), static_cast<token_id>(i));
    if (best.size() > count_max) best.pop_back();
    if (best.size() == count_max) threshold = logits[best.back()];
  }
  return best;
}

}  // namespace

row_logprobs logprobs_of(std::span<const float> logits, token_id picked, std::uint32_t n_likeliest) {
  EBB_ASSERT(picked >= 0);
  EBB_ASSERT(static_cast<std::size_t>(picked) < logits.size());
  const double largest = *std::max_element(logits.begin(), logits.end());
  EBB_ASSERT(std::isfinite(largest));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  EBB_ASSERT(sum >= 1);
  const double log_sum = std::log(sum);
  // The difference of two floats may be beyond the least float.
  const auto logprob_of = [&](token_id token) {
    const double logprob = logits[token] - largest - log_sum;
    return static_cast<float>(std::max<double>(logprob, std::numeric_limits<float>::lowest()));
  };
  row_logprobs out{logprob_of(picked), {}};
  for (const token_id token : likeliest_of(logits, n_likeliest)) out.likeliest.push_back({token, logprob_of(token)});
  return out;
}

}  // namespace ebb::model

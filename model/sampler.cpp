#include "model/sampler.hpp"
#include "config/assert.hpp"
#include "kernels/exact_math.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace ebb::model {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// How many temperatures below the likeliest a token may lie to be a candidate. At 30 all of a vocabulary of a million together
// would be drawn once in ten million tokens, and their exponentials need not be computed. min_p narrows it where no sum of all p
// is needed; the margin keeps the logarithm, which is not the same on every machine, from deciding about a token: cut() does.
float reach_of(const sampling_params& params) noexcept {
  constexpr float reach_max = 30;
  constexpr float margin = 0.01f;
  if (params.min_p == 0 || params.top_p < 1) return reach_max;
  return std::min(reach_max, margin - std::log(params.min_p));
}

tl::unexpected<error> bad_field(const char* field, float value, const char* wanted) {
  char number[32];
  std::snprintf(number, sizeof number, "%g", static_cast<double>(value));
  return fail(errc::bad_value, std::string(field) + " is " + number + "; it must be " + wanted + ".");
}

bool in_unit_range(float value) noexcept { return value >= 0 && value <= 1; }

// Calls take(id) for each logit above the threshold, in order of id; take() returns the threshold from there on, never a lower
// one. Once the threshold is high almost every block is passed over by a comparison that the compiler makes a vector of.
template <class Take>
void scan_above(std::span<const float> logits, float threshold, Take take) {
  constexpr std::size_t block = 64;
  const auto above = [&](float logit) { return !(logit <= threshold); };  // a NaN too, so that it is seen below
  const auto visit = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (!above(logits[i])) continue;
      EBB_ASSERT(!std::isnan(logits[i]));
      threshold = take(static_cast<token_id>(i));
    }
  };
  std::size_t begin = 0;
  for (; begin + block <= logits.size(); begin += block) {
    int any = 0;
    for (std::size_t i = 0; i < block; ++i) any |= above(logits[begin + i]);
    if (any) visit(begin, begin + block);
  }
  visit(begin, logits.size());
}

token_id largest(std::span<const float> logits) {
  token_id best = 0;
  scan_above(logits, minus_infinity, [&](token_id id) {
    best = id;
    return logits[id];
  });
  return best;
}

// The likeliest candidate gets weight 1.
template <class Candidate>
void weigh(std::span<Candidate> candidates, float max_logit, float temperature) noexcept {
  for (Candidate& one : candidates) one.weight = kernels::exact_exp((one.logit - max_logit) / temperature);
}

#if defined(__x86_64__)
// The same bits, without a call of fmaf() for each step of each polynomial. Pre: the processor has the instruction.
template <class Candidate>
[[gnu::target("fma"), gnu::flatten]] void weigh_with_fma(std::span<Candidate> candidates, float max_logit, float temperature) noexcept {
  weigh(candidates, max_logit, temperature);
}
#endif

}  // namespace

result<void> check(const sampling_params& params) {
  if (!(params.temperature >= 0) || std::isinf(params.temperature)) {
    return bad_field("temperature", params.temperature, "a number of at least 0 (0 is greedy)");
  }
  if (!in_unit_range(params.top_p)) return bad_field("top_p", params.top_p, "between 0 and 1 (1 is off)");
  if (!in_unit_range(params.min_p)) return bad_field("min_p", params.min_p, "between 0 and 1 (0 is off)");
  if (!(params.repeat_penalty > 0) || std::isinf(params.repeat_penalty)) {
    return bad_field("repeat_penalty", params.repeat_penalty, "a number above 0 (1 is off)");
  }
  return {};
}

sampler::sampler(const sampling_params& params) : params_(params), reach_(reach_of(params)), generator_(params.seed) {
  EBB_ASSERT(check(params).has_value());
}

token_id sampler::pick(std::span<const float> logits, std::span<const token_id> history) {
  EBB_ASSERT(!logits.empty());
  const std::span<const float> row = penalised(logits, history);
  const token_id likeliest = largest(row);
  if (params_.temperature == 0) return likeliest;

  const float max_logit = row[likeliest];
  EBB_ASSERT(std::isfinite(max_logit));
  const float floor = std::nextafter(max_logit - reach_ * params_.temperature, minus_infinity);
  if (params_.top_k == 0) {
    take_all(row, floor);
  } else {
    take_top_k(row, floor);
  }
  weigh_candidates(max_logit);
  cut();
  return draw();
}

std::span<const float> sampler::penalised(std::span<const float> logits, std::span<const token_id> history) {
  const std::size_t n_recent = std::min<std::size_t>(params_.repeat_last_n, history.size());
  if (params_.repeat_penalty == 1 || n_recent == 0) return logits;

  const auto recent = history.last(n_recent);
  recent_.assign(recent.begin(), recent.end());
  std::sort(recent_.begin(), recent_.end());
  recent_.erase(std::unique(recent_.begin(), recent_.end()), recent_.end());
  EBB_ASSERT(recent_.front() >= 0);
  EBB_ASSERT(static_cast<std::size_t>(recent_.back()) < logits.size());

  penalised_.assign(logits.begin(), logits.end());
  for (const token_id id : recent_) {
    float& logit = penalised_[id];
    logit = logit > 0 ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
  }
  return penalised_;
}

bool sampler::likelier(const candidate& a, const candidate& b) noexcept {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Candidates in order of id.
void sampler::take_all(std::span<const float> logits, float floor) {
  candidates_.clear();
  scan_above(logits, floor, [&](token_id id) {
    candidates_.push_back({id, logits[id], 0});
    return floor;
  });
}

// Candidates from the likeliest on. A heap keeps the best k so far, the least of them on top; its logit is the threshold that a
// later token must exceed, so that of equal ones the smaller ids stay.
void sampler::take_top_k(std::span<const float> logits, float floor) {
  candidates_.clear();
  scan_above(logits, floor, [&](token_id id) {
    if (candidates_.size() == params_.top_k) {
      std::pop_heap(candidates_.begin(), candidates_.end(), likelier);
      candidates_.pop_back();
    }
    candidates_.push_back({id, logits[id], 0});
    std::push_heap(candidates_.begin(), candidates_.end(), likelier);
    return candidates_.size() == params_.top_k ? candidates_.front().logit : floor;
  });
  std::sort_heap(candidates_.begin(), candidates_.end(), likelier);
}

void sampler::weigh_candidates(float max_logit) noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma")) return weigh_with_fma(std::span(candidates_), max_logit, params_.temperature);
#endif
  weigh(std::span(candidates_), max_logit, params_.temperature);
}

double sampler::sum_of_weights() const noexcept {
  double sum = 0;
  for (const candidate& one : candidates_) sum += one.weight;
  return sum;
}

// top_p and min_p both keep the likeliest few, so the shorter of the two is kept, whichever comes first. To sort only what can
// matter, the tail goes beforehand: n candidates below (1 - top_p) / n each have less than 1 - top_p together.
void sampler::cut() {
  if (params_.top_p == 1 && params_.min_p == 0) return;
  const double total = sum_of_weights();
  const double tail = (1.0 - params_.top_p) * total / static_cast<double>(candidates_.size());
  const double weight_min = std::max<double>(params_.min_p, tail);
  std::erase_if(candidates_, [&](const candidate& one) { return one.weight < weight_min; });
  if (params_.top_p == 1) return;

  std::sort(candidates_.begin(), candidates_.end(), likelier);
  double sum = 0;
  std::size_t n_kept = 0;
  do {
    sum += candidates_[n_kept++].weight;
  } while (n_kept < candidates_.size() && sum < params_.top_p * total);
  candidates_.resize(n_kept);
}

token_id sampler::draw() {
  const double uniform = static_cast<double>(generator_() >> 11) * 0x1p-53;  // [0, 1), 53 bits
  double left = uniform * sum_of_weights();
  for (const candidate& one : candidates_) {
    left -= one.weight;
    if (left < 0) return one.id;
  }
  return candidates_.back().id;  // rounding may leave a last 2^-53 of the sum
}

}  // namespace ebb::model

#include "model/sampler.hpp"
#include "kernels/exact_math.hpp"
#include "tests/model/support/random_bytes.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace ebb::model {
namespace {

using ids = std::vector<token_id>;
using row = std::vector<float>;

constexpr float infinity = std::numeric_limits<float>::infinity();

token_id pick_once(const sampling_params& params, const row& logits, const ids& history = {}) {
  return sampler(params).pick(logits, history);
}

// Every token that comes up in many draws.
std::set<token_id> support(const sampling_params& params, const row& logits, const ids& history = {}) {
  sampler one(params);
  std::set<token_id> seen;
  for (int i = 0; i < 4000; ++i) seen.insert(one.pick(logits, history));
  return seen;
}

// Logits that many tokens share, so that ties are tested, with some at minus infinity.
row random_row(std::mt19937_64& random, std::size_t n_vocab) {
  row logits(n_vocab);
  for (float& logit : logits) logit = static_cast<float>(test::below(random, 60)) / 8 - 4;
  for (std::size_t n = test::below(random, n_vocab); n > 0; --n) logits[test::below(random, n_vocab)] = -infinity;
  logits[test::below(random, n_vocab)] = 1;
  return logits;
}

// The steps as sampler.hpp lists them, each over the whole vocabulary and fully sorted.
class naive_sampler {
 public:
  explicit naive_sampler(const sampling_params& params) : params_(params), generator_(params.seed) {}

  token_id pick(row logits, const ids& history) {
    penalise(logits, history);
    ids kept(logits.size());
    std::iota(kept.begin(), kept.end(), 0);
    const auto by_logit = [&](token_id a, token_id b) { return logits[a] > logits[b]; };
    if (params_.temperature == 0) return *std::min_element(kept.begin(), kept.end(), by_logit);
    if (params_.top_k > 0) {
      std::stable_sort(kept.begin(), kept.end(), by_logit);
      kept.resize(std::min<std::size_t>(params_.top_k, kept.size()));
    }
    const float max_logit = *std::max_element(logits.begin(), logits.end());
    std::vector<float> weight(logits.size());
    for (const token_id id : kept) {
      if (logits[id] > -infinity) weight[id] = kernels::exact_exp((logits[id] - max_logit) / params_.temperature);
    }
    const auto add = [&](double sum_so_far, token_id id) { return sum_so_far + weight[id]; };
    const auto sum = [&] { return std::accumulate(kept.begin(), kept.end(), 0.0, add); };
    const double total = sum();
    if (params_.top_p < 1) {
      std::stable_sort(kept.begin(), kept.end(), by_logit);
      double covered = 0;
      std::size_t n_kept = 0;
      while (n_kept < kept.size() && (n_kept == 0 || covered < params_.top_p * total)) covered += weight[kept[n_kept++]];
      kept.resize(n_kept);
    }
    std::erase_if(kept, [&](token_id id) { return weight[id] < params_.min_p || weight[id] == 0; });
    double left = static_cast<double>(generator_() >> 11) * 0x1p-53 * sum();
    for (const token_id id : kept) {
      left -= weight[id];
      if (left < 0) return id;
    }
    return kept.back();
  }

 private:
  void penalise(row& logits, const ids& history) const {
    const std::size_t n = std::min<std::size_t>(history.size(), params_.repeat_last_n);
    for (const token_id id : std::set<token_id>(history.end() - static_cast<std::ptrdiff_t>(n), history.end())) {
      logits[id] = logits[id] > 0 ? logits[id] / params_.repeat_penalty : logits[id] * params_.repeat_penalty;
    }
  }

  sampling_params params_;
  std::mt19937_64 generator_;
};

sampling_params random_params(std::mt19937_64& random) {
  constexpr float temperatures[] = {0, 0.3f, 1, 2};
  constexpr float top_ps[] = {0, 0.4f, 0.95f, 1};
  constexpr float min_ps[] = {0, 0.02f, 0.3f, 1};
  sampling_params params;
  params.temperature = temperatures[test::below(random, 4)];
  params.top_k = static_cast<std::uint32_t>(test::below(random, 30));
  params.top_p = top_ps[test::below(random, 4)];
  params.min_p = min_ps[test::below(random, 4)];
  params.repeat_penalty = test::below(random, 2) ? 1 : 1.3f;
  params.repeat_last_n = static_cast<std::uint32_t>(test::below(random, 6));
  params.seed = random();
  return params;
}

}  // namespace

TEST_CASE("greedy takes the largest logit, the smaller id of equal ones, wherever it lies") {
  for (std::size_t n_vocab : {1u, 63u, 64u, 65u, 200u}) {
    for (std::size_t best = 0; best < n_vocab; ++best) {
      row logits(n_vocab, -1);
      logits[best] = 2;
      logits.back() = 2;
      REQUIRE(pick_once({}, logits) == static_cast<token_id>(best));
    }
  }
  CHECK(pick_once({}, row(100, -3)) == 0);
  CHECK(pick_once({}, row(3, -infinity)) == 0);
}

TEST_CASE("a sampler picks what the steps done naively pick, for random settings and logits with ties") {
  std::mt19937_64 random(41);
  for (int round = 0; round < 3000; ++round) {
    const sampling_params params = random_params(random);
    REQUIRE(check(params).has_value());
    sampler fast(params);
    naive_sampler naive(params);
    ids history;
    const std::size_t n_vocab = 1 + test::below(random, 150);
    for (int i = 0; i < 8; ++i) {
      const row logits = random_row(random, n_vocab);
      const token_id picked = fast.pick(logits, history);
      REQUIRE(picked == naive.pick(logits, history));
      history.push_back(picked);
    }
  }
}

// 200 000 draws: five standard deviations, and the seed is fixed.
TEST_CASE("tokens are drawn as often as the softmax at that temperature says") {
  const row logits = {1, 2, 0, -1, 2.5f};
  sampling_params params;
  params.temperature = 0.7f;
  sampler one(params);
  constexpr int n_draws = 200000;
  std::vector<int> count(logits.size());
  for (int i = 0; i < n_draws; ++i) ++count[one.pick(logits, {})];

  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit / 0.7);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const double p = std::exp(logits[id] / 0.7) / sum;
    CHECK(std::abs(count[id] - n_draws * p) < 5 * std::sqrt(n_draws * p * (1 - p)));
  }
}

TEST_CASE("the draw is the standard's mt19937_64 and 53 of its bits") {
  std::mt19937_64 generator(99);
  sampling_params params;
  params.temperature = 1;
  params.seed = 99;
  sampler one(params);
  const row even(1024, 0.5f);
  for (int i = 0; i < 100; ++i) CHECK(one.pick(even, {}) == static_cast<token_id>(generator() >> 54));
}

TEST_CASE("the same seed gives the same tokens, another seed others") {
  const auto tokens = [](std::uint64_t seed) {
    sampling_params params;
    params.temperature = 1;
    params.seed = seed;
    sampler one(params);
    ids picked;
    for (int i = 0; i < 32; ++i) picked.push_back(one.pick(row(500, 0), {}));
    return picked;
  };
  CHECK(tokens(7) == tokens(7));
  CHECK(tokens(7) != tokens(8));
}

TEST_CASE("top_k leaves the k largest, of equal ones those with smaller ids") {
  sampling_params params;
  params.temperature = 1;
  params.top_k = 3;
  CHECK(support(params, {1, 5, 4, 4, 4, 0}) == std::set<token_id>{1, 2, 3});
  params.top_k = 1;
  CHECK(support(params, {1, 4, 4}) == std::set<token_id>{1});
  params.top_k = 9;
  CHECK(support(params, {1, 1, 1}) == std::set<token_id>{0, 1, 2});
}

// The logits are logarithms of 0.5, 0.25, 0.125, 0.125, so p is known.
TEST_CASE("top_p keeps the fewest tokens that reach it, min_p those near the likeliest") {
  const row logits = {std::log(0.125f), std::log(0.5f), std::log(0.25f), std::log(0.125f)};
  sampling_params params;
  params.temperature = 1;
  params.top_p = 0.6f;
  CHECK(support(params, logits) == std::set<token_id>{1, 2});
  params.top_p = 0.8f;
  CHECK(support(params, logits) == std::set<token_id>{0, 1, 2});
  params.top_p = 0;
  CHECK(support(params, logits) == std::set<token_id>{1});
  params.top_p = 1;
  params.min_p = 0.4f;
  CHECK(support(params, logits) == std::set<token_id>{1, 2});
  params.min_p = 1;
  CHECK(support(params, logits) == std::set<token_id>{1});
}

TEST_CASE("p of top_p and min_p is that after temperature") {
  sampling_params params;
  params.min_p = 0.5f;
  const row logits = {0, 1};  // exp(-1) is below a half, exp(-1 / 2) above
  params.temperature = 1;
  CHECK(support(params, logits) == std::set<token_id>{1});
  params.temperature = 2;
  CHECK(support(params, logits) == std::set<token_id>{0, 1});
}

TEST_CASE("the repetition penalty divides what is positive, multiplies what is not, once a token") {
  sampling_params params;
  params.repeat_penalty = 2;
  CHECK(pick_once(params, {3.9f, 2, 1}, {0, 0, 0}) == 1);
  CHECK(pick_once(params, {4.1f, 2, 1}, {0, 0, 0}) == 0);
  CHECK(pick_once(params, {-1, -1.9f, -3}, {0}) == 1);
  CHECK(pick_once(params, {-1, -2.1f, -3}, {0}) == 0);
}

TEST_CASE("the repetition penalty looks back repeat_last_n tokens and no further") {
  sampling_params params;
  params.repeat_penalty = 4;
  params.repeat_last_n = 2;
  CHECK(pick_once(params, {2, 1}, {0, 1, 1}) == 0);
  CHECK(pick_once(params, {2, 1}, {1, 0, 0}) == 1);
  params.repeat_last_n = 0;
  CHECK(pick_once(params, {2, 1}, {0, 0, 0}) == 0);
}

TEST_CASE("a token at minus infinity is never drawn") {
  sampling_params params;
  params.temperature = 100;
  CHECK(support(params, {-infinity, 0, -infinity, 1}) == std::set<token_id>{1, 3});
}

TEST_CASE("a temperature close to zero draws the largest and overflows nothing") {
  sampling_params params;
  params.temperature = std::numeric_limits<float>::denorm_min();
  CHECK(support(params, {1e30f, -1e30f, 1.1e30f}) == std::set<token_id>{2});
}

TEST_CASE("a setting out of range is refused by its name") {
  const auto refused = [](auto change) {
    sampling_params params;
    change(params);
    const auto checked = check(params);
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().code == errc::bad_value);
    return checked.error().text;
  };
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {-0.1f, infinity, nan}) {
    CHECK_THAT(refused([&](sampling_params& params) { params.temperature = bad; }), Catch::StartsWith("temperature is "));
  }
  for (const float bad : {-0.1f, 1.1f, nan}) {
    CHECK_THAT(refused([&](sampling_params& params) { params.top_p = bad; }), Catch::StartsWith("top_p is "));
    CHECK_THAT(refused([&](sampling_params& params) { params.min_p = bad; }), Catch::StartsWith("min_p is "));
  }
  for (const float bad : {-1.0f, 0.0f, infinity, nan}) {
    CHECK_THAT(refused([&](sampling_params& params) { params.repeat_penalty = bad; }), Catch::StartsWith("repeat_penalty is "));
  }
  CHECK(check({}).has_value());
}

}  // namespace ebb::model

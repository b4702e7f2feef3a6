#include "model/logprobs.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace ebb::model {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

std::vector<float> drawn_row(unsigned seed, std::size_t n_vocab, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> logit(0, spread);
  std::vector<float> row(n_vocab);
  std::generate(row.begin(), row.end(), [&] { return logit(random); });
  return row;
}

// log(exp(l_i) / sum exp(l_j)) as it is written, in long double.
long double plain_logprob(const std::vector<float>& row, std::size_t token) {
  long double sum = 0;
  for (const float logit : row) sum += std::exp(static_cast<long double>(logit));
  return static_cast<long double>(row[token]) - std::log(sum);
}

std::vector<token_id> ids_of(const row_logprobs& found) {
  std::vector<token_id> ids;
  for (const token_logprob& each : found.likeliest) ids.push_back(each.token);
  return ids;
}

}  // namespace

TEST_CASE("log probabilities are those of the softmax, and their order is that of a sort") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const std::size_t n_vocab = 50 + 997 * (seed % 4);
    const auto row = drawn_row(seed, n_vocab, 0.1f * static_cast<float>(seed * seed));
    const auto picked = static_cast<token_id>(seed * 7 % n_vocab);
    const row_logprobs found = logprobs_of(row, picked, 20);
    CHECK(found.picked == Approx(static_cast<double>(plain_logprob(row, picked))).epsilon(1e-6).margin(1e-7));

    std::vector<token_id> sorted(n_vocab);
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [&](token_id a, token_id b) { return row[a] > row[b]; });
    sorted.resize(20);
    CHECK(ids_of(found) == sorted);
    for (const token_logprob& each : found.likeliest) {
      CHECK(each.logprob == Approx(static_cast<double>(plain_logprob(row, each.token))).epsilon(1e-6).margin(1e-7));
    }
  }
}

TEST_CASE("the probabilities of all tokens add up to one") {
  const auto row = drawn_row(5, 300, 3);
  double sum = 0;
  for (const token_logprob& each : logprobs_of(row, 0, 300).likeliest) sum += std::exp(each.logprob);
  CHECK(sum == Approx(1).epsilon(1e-6));
}

TEST_CASE("of equally likely tokens the lower id comes first, and stays when there is no room for all") {
  CHECK(ids_of(logprobs_of(std::vector<float>(8, 0.5f), 3, 3)) == std::vector<token_id>{0, 1, 2});
  CHECK(ids_of(logprobs_of(std::vector<float>{1, 2, 1, 2, 1, 2}, 0, 4)) == std::vector<token_id>{1, 3, 5, 0});
  CHECK(logprobs_of(std::vector<float>(8, 0.5f), 3, 0).picked == Approx(std::log(1.0 / 8)));
}

TEST_CASE("none are shown unless asked for, and never more than have a chance") {
  const std::vector<float> row{0, minus_infinity, 1, minus_infinity};
  CHECK(logprobs_of(row, 2, 0).likeliest.empty());
  CHECK(ids_of(logprobs_of(row, 2, 20)) == std::vector<token_id>{2, 0});
  CHECK(ids_of(logprobs_of({row.data(), 1}, 0, 20)) == std::vector<token_id>{0});
  CHECK(logprobs_of({row.data(), 1}, 0, 20).picked == 0);
}

TEST_CASE("log probabilities are finite however far apart the logits lie") {
  constexpr float most = std::numeric_limits<float>::max();
  const std::vector<float> row{most, -most, 0};
  const row_logprobs found = logprobs_of(row, 1, 3);
  CHECK(found.picked == std::numeric_limits<float>::lowest());
  CHECK(ids_of(found) == std::vector<token_id>{0, 2, 1});
  for (const token_logprob& each : found.likeliest) CHECK(std::isfinite(each.logprob));
  CHECK(found.likeliest.front().logprob == 0);
  CHECK(logprobs_of(std::vector<float>{-most, -most}, 0, 1).picked == Approx(std::log(0.5)));
}

}  // namespace ebb::model

#include "kernels/router.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace ebb::kernels;

namespace {

struct routed {
  std::vector<std::uint32_t> index;
  std::vector<float> weight;
};

routed route(const std::vector<float>& logits, std::size_t top_k) {
  routed to{std::vector<std::uint32_t>(top_k), std::vector<float>(top_k)};
  ebb::kernels::route(logits.data(), logits.size(), top_k, to.index.data(), to.weight.data());
  return to;
}

}  // namespace

TEST_CASE("of equal logits the expert with the smaller index ranks first") {
  CHECK(route({1, 3, 3, 2, 3}, 3).index == std::vector<std::uint32_t>{1, 2, 4});
  CHECK(route({1, 3, 3, 2, 3}, 2).index == std::vector<std::uint32_t>{1, 2});
  CHECK(route({0, 0, 0}, 3).index == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(route({0.0f, -0.0f, 0.0f}, 2).index == std::vector<std::uint32_t>{0, 1});
  CHECK(route({1, 2, 2, 5}, 3).index == std::vector<std::uint32_t>{3, 1, 2});
}

TEST_CASE("all experts may be chosen, and one alone has all the weight") {
  CHECK(route({1, 4, 2, 3}, 4).index == std::vector<std::uint32_t>{1, 3, 2, 0});
  CHECK(route({-5}, 1).weight == std::vector<float>{1.0f});
  CHECK(route({7, 7}, 2).weight == std::vector<float>{0.5f, 0.5f});
}

TEST_CASE("an expert far below the best gets next to nothing, not a NaN") {
  const routed to = route({-3e38f, 1.0f}, 2);
  CHECK(to.weight[0] == 1.0f);
  CHECK(to.weight[1] >= 0.0f);
  CHECK(to.weight[1] < 1e-37f);
}

// Bound: the difference of two logits is rounded once (relative to itself, so |l_k - l_0| * 2^-24 of p_k), exp adds its error, the
// sum of positive numbers one rounding a term, the division one; the same errors of p stand in the sum again.
TEST_CASE("route agrees with softmax over all experts, renormalised") {
  test::generator random(1);
  for (const std::size_t n_experts : {1, 8, 32, 60, 128}) {
    for (const std::size_t top_k : {1, 2, 4, 8}) {
      if (top_k > n_experts) continue;
      const std::vector<float> logits = random.normals(n_experts);
      const routed to = route(logits, top_k);
      const std::vector<reference::choice> twin = reference::route(logits.data(), n_experts, top_k);
      const double spread = logits[twin.front().index] - logits[twin.back().index];
      const double bound = test::slack * (2 * (spread * test::unit + test::exp_error) + static_cast<double>(top_k + 1) * test::unit);
      for (std::size_t k = 0; k < top_k; ++k) {
        CHECK(to.index[k] == twin[k].index);
        CHECK(std::fabs(to.weight[k] - twin[k].weight) <= bound * twin[k].weight);
      }
    }
  }
}

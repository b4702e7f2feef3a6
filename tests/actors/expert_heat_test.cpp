#include "actors/expert_heat.hpp"
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

namespace ebb::actors {
namespace {

constexpr double no_decay = std::numeric_limits<double>::infinity();
constexpr expert_range two_by_three{5, 7, 3};

TEST_CASE("heats that are read out and restored make the same order, and fade like any use") {
  expert_heat before({0, 2, 3}, 4);
  for (const std::uint32_t index : {2u, 2u, 0u}) {
    before.note({1, index}, 3);
    before.end_window();
  }
  expert_heat after({0, 2, 3}, 4);
  after.note({0, 0});  // replaced
  after.end_window();
  after.restore(before.heats());
  CHECK(after.heats() == before.heats());
  CHECK(after.hottest_first() == before.hottest_first());
  const double heat = after.heat({1, 2});
  for (int window = 0; window < 4; ++window) after.end_window();
  CHECK(after.heat({1, 2}) == Approx(heat / 2));
}

TEST_CASE("experts of a stage are numbered by layer, then by index") {
  CHECK(two_by_three.count() == 6);
  for (std::uint32_t number = 0; number < 6; ++number) CHECK(two_by_three.number_of(two_by_three.at(number)) == number);
  CHECK(two_by_three.number_of({5, 0}) == 0);
  CHECK(two_by_three.number_of({6, 1}) == 4);
  CHECK_FALSE(two_by_three.contains({4, 0}));
  CHECK_FALSE(two_by_three.contains({7, 0}));
  CHECK_FALSE(two_by_three.contains({5, 3}));
}

TEST_CASE("heat is the sum of uses, by weight") {
  expert_heat heat(two_by_three, no_decay);
  heat.note({5, 1});
  heat.note({5, 1}, 2.5);
  heat.end_window();
  CHECK(heat.heat({5, 1}) == 3.5);
  CHECK(heat.heat({5, 0}) == 0);
}

TEST_CASE("a use counts half after a half-life") {
  expert_heat heat(two_by_three, 4);
  heat.note({6, 2}, 8);
  for (int window = 0; window < 4; ++window) heat.end_window();
  CHECK(heat.heat({6, 2}) == Approx(4));
  for (int window = 0; window < 8; ++window) heat.end_window();
  CHECK(heat.heat({6, 2}) == Approx(1));
}

TEST_CASE("the hottest come first, and of equals the lower layer, then the lower index") {
  expert_heat heat(two_by_three, 16);
  heat.note({6, 1}, 2);
  heat.note({5, 2}, 2);
  heat.note({6, 0}, 3);
  CHECK(heat.hottest_first() == std::vector<expert_id>{{6, 0}, {5, 2}, {6, 1}, {5, 0}, {5, 1}, {6, 2}});
  CHECK(heat.is_hotter({5, 2}, {6, 1}));
  CHECK_FALSE(heat.is_hotter({6, 1}, {5, 2}));
  CHECK_FALSE(heat.is_hotter({5, 2}, {5, 2}));
}

TEST_CASE("a seed gives an order, and weak seeds yield to the first use") {
  expert_heat heat(two_by_three, 16);
  heat.seed(std::vector<expert_id>{{6, 2}, {5, 1}, {6, 0}}, 0.9);
  CHECK(heat.hottest_first() == std::vector<expert_id>{{6, 2}, {5, 1}, {6, 0}, {5, 0}, {5, 2}, {6, 1}});
  CHECK(heat.heat({6, 2}) == Approx(0.9));
  CHECK(heat.heat({5, 1}) == Approx(0.6));
  CHECK(heat.heat({6, 0}) == Approx(0.3));
  heat.note({6, 1});
  CHECK(heat.hottest_first().front() == expert_id{6, 1});
}

TEST_CASE("heat agrees with a naive sum over all uses, through thousands of half-lives") {
  const auto half_life = GENERATE(1.0, 3.0, 64.0);
  CAPTURE(half_life);
  std::mt19937 random(7);
  expert_heat heat(two_by_three, half_life);
  std::vector<double> naive(6, 0.0);
  const double decay = std::exp2(-1 / half_life);
  const int windows = static_cast<int>(2000 * half_life);
  for (int window = 0; window < windows; ++window) {
    for (int use = 0; use < 3; ++use) {
      const std::uint32_t number = random() % 6;
      const double weight = 1 + random() % 4;
      heat.note(two_by_three.at(number), weight);
      naive[number] += weight;
    }
    heat.end_window();
    for (std::uint32_t number = 0; number < 6; ++number) {
      naive[number] *= decay;
      if (window % 97 == 0 || window > windows - 10) REQUIRE(heat.heat(two_by_three.at(number)) == Approx(naive[number]).epsilon(1e-9));
    }
  }
}

TEST_CASE("windows without a use change no order, also where the counts are scaled back") {
  std::mt19937 random(8);
  const expert_range experts{0, 4, 16};
  expert_heat heat(experts, 1);
  for (int use = 0; use < 200; ++use) heat.note(experts.at(random() % experts.count()), 1 + 1e-15 * (random() % 10));
  const auto order = heat.hottest_first();
  for (int window = 0; window < 700; ++window) {
    heat.end_window();
    REQUIRE(heat.hottest_first() == order);
  }
}

}  // namespace
}  // namespace ebb::actors

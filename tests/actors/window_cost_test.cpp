#include "actors/window_cost.hpp"
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace ebb::actors {
namespace {

TEST_CASE("a cost of which nothing is known is none, and one window is its own mean") {
  window_cost cost;
  CHECK_FALSE(cost.ms(3));
  cost.note(3, 7);
  CHECK(cost.ms(3) == Approx(7));
  CHECK(cost.ms(100) == Approx(7));
  CHECK_FALSE(cost.ms_per_miss());
}

TEST_CASE("a base and a cost of each miss are learnt from windows with different misses") {
  window_cost cost;
  std::mt19937 random(1);
  for (int window = 0; window < 300; ++window) {
    const double misses = random() % 24;
    cost.note(misses, 2 + 0.25 * misses + (random() % 100) / 500.0);  // and up to 0.2 of noise
  }
  REQUIRE(cost.ms_per_miss());
  CHECK(*cost.ms_per_miss() == Approx(0.25).margin(0.01));
  CHECK(cost.ms(0) == Approx(2.1).margin(0.05));
  CHECK(cost.ms(96) == Approx(26.1).margin(1));
}

TEST_CASE("while misses never vary, a window with any number of them is foreseen to take the mean") {
  const double misses = GENERATE(0.0, 12.0);
  window_cost cost;
  std::mt19937 random(2);
  for (int window = 0; window < 100'000; ++window) cost.note(misses, 3 + (random() % 100) / 100.0);
  CHECK_FALSE(cost.ms_per_miss());
  CHECK(cost.ms(0) == Approx(3.5).margin(0.1));
  CHECK(cost.ms(24) == Approx(3.5).margin(0.1));
}

TEST_CASE("what a miss costs is still known after very many windows without one") {
  window_cost cost;
  for (int window = 0; window < 100; ++window) cost.note(window % 7, 2 + 0.5 * (window % 7));
  for (int window = 0; window < 1'000'000; ++window) cost.note(0, 2);
  CHECK(cost.ms(0) == Approx(2));
  CHECK(cost.ms(10) == Approx(7));
}

TEST_CASE("a machine that has become slower is learnt anew within a few half-lives") {
  window_cost cost(32);
  for (int window = 0; window < 500; ++window) cost.note(window % 9, 1 + 0.1 * (window % 9));
  for (int window = 0; window < 320; ++window) cost.note(window % 9, 4 + 0.3 * (window % 9));
  CHECK(cost.ms(0) == Approx(4).epsilon(0.01));
  CHECK(cost.ms_per_miss() == Approx(0.3).epsilon(0.01));
}

TEST_CASE("no cost is ever negative, whatever the noise, and a miss never costs less than nothing") {
  window_cost cost;
  for (int window = 0; window < 100; ++window) cost.note(window % 5, 9 - (window % 5));  // misses make it faster: noise
  CHECK(cost.ms_per_miss() == Approx(0));
  CHECK(*cost.ms(1000) == Approx(*cost.ms(0)));
  window_cost steep;
  for (int window = 0; window < 100; ++window) steep.note(4 + 2 * (window % 2), window % 2 == 0 ? 0.1 : 10);
  CHECK(*steep.ms(0) == Approx(0).margin(1e-9));
}

TEST_CASE("a machine that slept in the middle of a window moves the mean by little") {
  window_cost cost;
  for (int window = 0; window < 400; ++window) cost.note(5, 2);
  cost.note(5, 3'600'000);
  CHECK(*cost.ms(5) < 2.1);
}

TEST_CASE("windows that take no measurable time cost nothing, and stay numbers") {
  window_cost cost;
  for (int window = 0; window < 100; ++window) cost.note(window % 3, 0);
  CHECK(cost.ms(0) == Approx(0));
  CHECK(cost.ms(9) == Approx(0));
}

}  // namespace
}  // namespace ebb::actors

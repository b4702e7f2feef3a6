#include "actors/plan.hpp"
#include <catch2/catch.hpp>

namespace ebb::actors {
namespace {

bus::card_plan stage(std::uint32_t device, std::uint32_t layers, double hit_rate, double ms) {
  bus::card_plan card;
  card.device = device;
  card.layers = layers;
  card.hit_rate = hit_rate;
  card.hit_rate_now = 1;
  card.ms_per_token = ms;
  card.ms_per_token_now = ms / 2;
  return card;
}

TEST_CASE("a token passes through every stage, so times add up, and hit rates count by layers") {
  const bus::plan_report all = together({stage(1, 3, 0.2, 15), stage(0, 1, 0.6, 5)});
  REQUIRE(all.cards.size() == 2);
  CHECK(all.cards[0].device == 0);
  CHECK(all.hit_rate == Approx(0.3));
  CHECK(all.hit_rate_now == Approx(1));
  CHECK(all.tokens_per_s == Approx(50));
  CHECK(all.tokens_per_s_now == Approx(100));
}

TEST_CASE("the way between the stages counts with each token, and makes no speed of none") {
  bus::plan_report all = together({stage(1, 3, 0.2, 15), stage(0, 1, 0.6, 5)});
  add_handover(all, 5);
  CHECK(all.tokens_per_s == Approx(1000.0 / 25));
  CHECK(all.tokens_per_s_now == Approx(1000.0 / 15));
  bus::plan_report nothing = together({stage(0, 1, 0.5, 0)});
  add_handover(nothing, 5);
  CHECK(nothing.tokens_per_s == 0);
}

TEST_CASE("while one stage has measured nothing, no speed is foreseen") {
  const bus::plan_report all = together({stage(0, 1, 0.5, 5), stage(1, 1, 0.5, 0)});
  CHECK(all.tokens_per_s == 0);
  CHECK(all.tokens_per_s_now == 0);
  CHECK(all.hit_rate == Approx(0.5));
}

}  // namespace
}  // namespace ebb::actors

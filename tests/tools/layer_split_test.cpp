#include "tools/layer_split.hpp"
#include <catch2/catch.hpp>

using namespace ebb;
using namespace ebb::tools;

namespace {

using first_layers = std::vector<std::uint32_t>;
using ranges = std::vector<layer_range>;

ranges split(std::uint32_t n_layers, std::size_t n_cards, const first_layers& first = {}) {
  const auto all = split_layers(n_layers, n_cards, first);
  INFO((all ? std::string() : all.error().text));
  REQUIRE(all);
  return *all;
}

void check_refused(std::uint32_t n_layers, std::size_t n_cards, const first_layers& first, const std::string& begins, const std::string& names) {
  const auto all = split_layers(n_layers, n_cards, first);
  REQUIRE_FALSE(all);
  CHECK(all.error().code == errc::bad_value);
  CHECK_THAT(all.error().text, Catch::StartsWith(begins) && Catch::Contains(names));
}

}  // namespace

TEST_CASE("layers are split evenly, and the earlier cards have one more where that cannot be") {
  CHECK(split(6, 1) == ranges{{0, 6}});
  CHECK(split(6, 2) == ranges{{0, 3}, {3, 6}});
  CHECK(split(48, 4) == ranges{{0, 12}, {12, 24}, {24, 36}, {36, 48}});
  CHECK(split(7, 2) == ranges{{0, 4}, {4, 7}});
  CHECK(split(11, 4) == ranges{{0, 3}, {3, 6}, {6, 9}, {9, 11}});
}

TEST_CASE("every split covers all layers without a gap, and no two cards differ by more than one layer") {
  for (std::uint32_t n_layers = 1; n_layers <= 64; ++n_layers) {
    for (std::size_t n_cards = 1; n_cards <= n_layers; ++n_cards) {
      const ranges all = split(n_layers, n_cards);
      REQUIRE(all.size() == n_cards);
      std::uint32_t next = 0;
      std::uint32_t size_before = n_layers;
      for (const layer_range& range : all) {
        const std::uint32_t size = range.end - range.begin;
        REQUIRE(range.begin == next);
        REQUIRE(size >= n_layers / n_cards);
        REQUIRE(size <= (n_layers + n_cards - 1) / n_cards);
        REQUIRE(size <= size_before);
        next = range.end;
        size_before = size;
      }
      REQUIRE(next == n_layers);
    }
  }
}

TEST_CASE("first layers that are given are kept") {
  CHECK(split(6, 2, {0, 5}) == ranges{{0, 5}, {5, 6}});
  CHECK(split(6, 3, {0, 1, 2}) == ranges{{0, 1}, {1, 2}, {2, 6}});
  CHECK(split(6, 1, {0}) == ranges{{0, 6}});
}

TEST_CASE("more cards than layers, and no card at all, are refused with both numbers") {
  check_refused(6, 7, {}, "setting `cards`", "7 cards for a model of 6 layers");
  check_refused(6, 0, {}, "setting `cards`", "0 cards");
  check_refused(6, 7, {0, 1, 2, 3, 4, 5, 6}, "setting `cards`", "7 cards");
}

TEST_CASE("first layers that do not fit the cards and the model are refused with what would fit") {
  const auto refused = [](const first_layers& first) { check_refused(6, 2, first, "setting `layers`", "each of 2 cards, ascending from 0 and below 6"); };
  refused({1, 3});     // does not begin at 0
  refused({0, 0});     // an empty stage
  refused({3, 0});     // descends
  refused({0, 6});     // beyond the last layer
  refused({0, 7});
  refused({0});        // fewer than cards
  refused({0, 2, 4});  // more than cards
}

TEST_CASE("with shares the layers follow them, and every card has at least one") {
  const auto by = [](std::uint32_t n_layers, const std::vector<double>& shares) {
    const auto all = split_layers(n_layers, shares.size(), {}, shares);
    REQUIRE(all);
    return *all;
  };
  CHECK(by(48, {1, 1}) == ranges{{0, 24}, {24, 48}});
  CHECK(by(48, {24, 8}) == ranges{{0, 36}, {36, 48}});
  CHECK(by(48, {1, 2, 1}) == ranges{{0, 12}, {12, 36}, {36, 48}});
  CHECK(by(6, {1000, 1, 1}) == ranges{{0, 4}, {4, 5}, {5, 6}});
  CHECK(by(6, {1, 1, 1000}) == ranges{{0, 1}, {1, 2}, {2, 6}});
  CHECK(by(3, {1, 1000, 1}) == ranges{{0, 1}, {1, 2}, {2, 3}});
  const auto named = split_layers(6, 2, first_layers{0, 5}, std::vector<double>{1, 1});  // what is said by name stands
  REQUIRE(named);
  CHECK(*named == ranges{{0, 5}, {5, 6}});
}

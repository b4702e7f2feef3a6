#include "bus/http/kept_reserves.hpp"
#include <catch2/catch.hpp>

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::http;

namespace {

settings with(std::size_t n_cards, std::vector<std::uint32_t> reserve_mib) {
  settings out;
  out.cards.assign(n_cards, card_choice{});
  out.vram_reserve_mib = std::move(reserve_mib);
  return out;
}

}  // namespace

TEST_CASE("the newest command for a card says its reserve, and null is that of the start") {
  kept_reserves kept(with(2, {6, 9}));
  CHECK(kept.common_mib({}) == std::nullopt);
  kept.keep({5, {}});
  CHECK(kept.common_mib({}) == 5u);
  kept.keep({7, 1});
  CHECK(kept.common_mib({}) == std::nullopt);
  CHECK(kept.common_mib(0) == 5u);
  CHECK(kept.reserve_mib(1) == 7u);
  kept.keep({{}, 1});
  CHECK(kept.reserve_mib(1) == 9u);
  kept.keep({{}, {}});
  CHECK(kept.reserve_mib(0) == 6u);
  kept.keep({4, {}});
  CHECK(kept.common_mib({}) == 4u);
}

TEST_CASE("of cards that are to be found at the start none is refused, and what all have in common is known") {
  kept_reserves kept(with(0, {6}));
  CHECK(kept.may_have(99));
  CHECK_FALSE(kept_reserves(with(2, {6})).may_have(2));
  kept.keep({{}, {}});
  CHECK(kept.common_mib({}) == 6u);
  kept.keep({5, {}});
  CHECK(kept.common_mib({}) == 5u);
  kept.keep({7, 3});
  CHECK(kept.common_mib({}) == std::nullopt);
  CHECK(kept.reserve_mib(3) == 7u);
}

#include "actors/ledger.hpp"
#include <catch2/catch.hpp>

namespace ebb::actors {
namespace {

TEST_CASE("a command for one device is a target for its card alone") {
  const ledger book({700, 800});
  const auto targets = book.targets(1200, 1);
  REQUIRE(targets);
  CHECK(*targets == std::vector<reserve_target>{{{1}, 1200}});
}

TEST_CASE("a command without a device is one for every card") {
  const ledger book({700, 800, 900});
  CHECK(*book.targets(5, {}) == std::vector<reserve_target>{{{0}, 5}, {{1}, 5}, {{2}, 5}});
  CHECK(*book.targets(0, {}) == std::vector<reserve_target>{{{0}, 0}, {{1}, 0}, {{2}, 0}});
}

TEST_CASE("a command without a reserve means the start's, whatever was set since") {
  ledger book({700, 800});
  book.set({{0}, 5000});
  book.set({{1}, 6000});
  CHECK(*book.targets({}, {}) == std::vector<reserve_target>{{{0}, 700}, {{1}, 800}});
  CHECK(*book.targets({}, 1) == std::vector<reserve_target>{{{1}, 800}});
}

TEST_CASE("what a card holds is the start's reserve until it is brought to another") {
  ledger book({700, 800});
  CHECK(book.reserve_mib({1}) == 800);
  REQUIRE(book.targets(1, 1));
  CHECK(book.reserve_mib({1}) == 800);
  book.set({{1}, 1});
  CHECK(book.reserve_mib({1}) == 1);
  CHECK(book.reserve_mib({0}) == 700);
}

TEST_CASE("a device that is not in the run is refused, and the text names those that are") {
  const ledger one({0});
  const auto alone = one.targets(1, 1);
  REQUIRE_FALSE(alone);
  CHECK(alone.error().code == errc::unknown_device);
  CHECK_THAT(alone.error().text, Catch::Contains("no device 1") && Catch::Contains("the only device is 0"));

  const ledger three({0, 0, 0});
  const auto beyond = three.targets({}, 3);
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().code == errc::unknown_device);
  CHECK_THAT(beyond.error().text, Catch::Contains("no device 3") && Catch::Contains("0 to 2"));
}

}  // namespace
}  // namespace ebb::actors

#include "actors/residency.hpp"
#include <catch2/catch.hpp>

namespace ebb::actors {
namespace {

TEST_CASE("a stage is resident when all its experts are, and that is news once for each version") {
  residency known;
  CHECK_FALSE(known.resident({0}));
  CHECK_FALSE(known.take({{0}, 1, 63, 64}));
  CHECK_FALSE(known.resident({0}));
  CHECK(known.take({{0}, 2, 64, 64}) == 2u);
  CHECK(known.resident({0}));
  CHECK_FALSE(known.take({{0}, 2, 64, 64}));
  CHECK(known.take({{0}, 5, 64, 64}) == 5u);
}

TEST_CASE("a stage that stops being resident asks for nothing, and may become so again") {
  residency known;
  known.take({{0}, 2, 64, 64});
  CHECK_FALSE(known.take({{0}, 3, 63, 64}));
  CHECK_FALSE(known.resident({0}));
  CHECK(known.take({{0}, 4, 64, 64}) == 4u);
  CHECK(known.resident({0}));
}

TEST_CASE("cards are apart, each with versions of its own") {
  residency known;
  CHECK(known.take({{1}, 9, 32, 32}) == 9u);
  CHECK_FALSE(known.resident({0}));
  CHECK(known.take({{0}, 1, 64, 64}) == 1u);
  CHECK_FALSE(known.take({{0}, 2, 10, 64}));
  CHECK(known.resident({1}));
}

}  // namespace
}  // namespace ebb::actors

#include "config/nearest.hpp"
#include <array>
#include <catch2/catch.hpp>

namespace {

constexpr std::array<std::string_view, 5> known = {"parallel", "profile", "bus.listen", "http.listen", "vram"};

}  // namespace

TEST_CASE("nearest finds the word behind a letter that is missing, doubled, wrong or swapped") {
  CHECK(ebb::nearest("paralel", known) == "parallel");
  CHECK(ebb::nearest("parallell", known) == "parallel");
  CHECK(ebb::nearest("parallex", known) == "parallel");
  CHECK(ebb::nearest("parlalel", known) == "parallel");
  CHECK(ebb::nearest("varm", known) == "vram");
}

TEST_CASE("nearest counts a swap of neighbours as one step") {
  constexpr std::array<std::string_view, 2> close = {"abxy", "abdd"};
  CHECK(ebb::nearest("abyx", close) == "abxy");
}

TEST_CASE("nearest takes the first of several at the same distance") {
  constexpr std::array<std::string_view, 2> equal = {"card1", "card2"};
  CHECK(ebb::nearest("card3", equal) == "card1");
}

TEST_CASE("nearest suggests nothing when half of the letters would have to change") {
  CHECK(ebb::nearest("zzzz", known).empty());
  CHECK(ebb::nearest("vrxx", known).empty());
  CHECK(ebb::nearest("", known).empty());
  CHECK(ebb::nearest("parallel", {}).empty());
}

TEST_CASE("nearest does not compare a word of a megabyte") { CHECK(ebb::nearest(std::string(1u << 20, 'p'), known).empty()); }

TEST_CASE("did_you_mean is the end of a sentence, or nothing") {
  CHECK(ebb::did_you_mean("profil", known) == "; did you mean \"profile\"?");
  CHECK(ebb::did_you_mean("zzzz", known).empty());
}

#include "config/result.hpp"
#include <catch2/catch.hpp>
#include <set>

using ebb::errc;

TEST_CASE("every error code has a name of its own") {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(errc::internal); ++code) names.insert(to_string(static_cast<errc>(code)));
  CHECK(names.size() == static_cast<std::size_t>(errc::internal) + 1);
  CHECK(names.count("unknown") == 0);
}

TEST_CASE("a value outside of the error codes is called unknown") { CHECK(to_string(static_cast<errc>(255)) == "unknown"); }

TEST_CASE("fail carries its code and its text") {
  const ebb::result<int> failed = ebb::fail(errc::busy, "the queue is full");
  REQUIRE(!failed);
  CHECK(failed.error().code == errc::busy);
  CHECK(failed.error().text == "the queue is full");
}

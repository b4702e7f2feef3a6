// tests/model/support/check_error.hpp: an error has a code, and a text that names what is wrong.
#pragma once
#include "config/result.hpp"
#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>

namespace ebb::model::test {

template <class T>
void check_error(const result<T>& outcome, errc code, std::initializer_list<std::string> named) {
  REQUIRE_FALSE(outcome.has_value());
  INFO(outcome.error().text);
  CHECK(to_string(outcome.error().code) == to_string(code));
  for (const std::string& each : named) CHECK_THAT(outcome.error().text, Catch::Contains(each));
}

}  // namespace ebb::model::test

#include "kernels/half.hpp"
#include <catch2/catch.hpp>
#include <random>

using namespace ebb::kernels;

namespace {

bool is_nan(std::uint16_t half) { return (half & 0x7fff) > 0x7c00; }

// The value by its definition, in double, where every half is exact.
double meaning(std::uint16_t half) {
  const int exponent = (half >> 10) & 31, fraction = half & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("every half becomes the float of its value and comes back as itself") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (is_nan(half)) {
      REQUIRE(std::isnan(value));
      REQUIRE(float_to_half(value) == (half | 0x0200));  // quiet
    } else {
      if ((half & 0x7fff) == 0x7c00) {
        REQUIRE(std::isinf(value));
      } else {
        REQUIRE(value == meaning(half));
      }
      REQUIRE(std::signbit(value) == ((half & 0x8000) != 0));
      REQUIRE(float_to_half(value) == half);
    }
  }
}

TEST_CASE("a float between two halves becomes the nearer one, and the even one from the middle") {
  for (std::uint16_t half = 0; half < 0x7bff; ++half) {
    const double below = meaning(half), above = meaning(static_cast<std::uint16_t>(half + 1));
    const auto middle = static_cast<float>((below + above) / 2);  // exact: one bit more than a half has
    const auto even = static_cast<std::uint16_t>(half + (half & 1));
    REQUIRE(float_to_half(middle) == even);
    REQUIRE(float_to_half(-middle) == (even | 0x8000));
    REQUIRE(float_to_half(std::nextafter(middle, 0.0f)) == half);
    REQUIRE(float_to_half(std::nextafter(middle, 1e9f)) == half + 1);
  }
}

TEST_CASE("a float becomes an infinite half from 65520 on, where infinity is as near as the largest half") {
  CHECK(float_to_half(std::nextafter(65520.0f, 0.0f)) == 0x7bff);
  CHECK(float_to_half(65520.0f) == 0x7c00);
  CHECK(float_to_half(-65520.0f) == 0xfc00);
  CHECK(float_to_half(1e30f) == 0x7c00);
  CHECK(float_to_half(INFINITY) == 0x7c00);
}

TEST_CASE("a bf16 becomes the float whose upper half it is") {
  CHECK(bf16_to_float(0x3f80) == 1.0f);
  CHECK(bf16_to_float(0xc049) == -3.140625f);
  CHECK(bf16_to_float(0x0001) == std::ldexp(1.0f, -133));
  CHECK(std::signbit(bf16_to_float(0x8000)));
}

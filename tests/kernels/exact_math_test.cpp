#include "kernels/exact_math.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace ebb::kernels;

TEST_CASE("exact_exp is within 8e-8 of e^x over its whole range") {
  double worst = 0.0;
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(87.0f); bits += 997) {
    for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      const double exact = std::exp(static_cast<double>(x));
      worst = std::max(worst, std::fabs(exact_exp(x) - exact) / exact);
    }
  }
  CHECK(worst < test::exp_error);
}

TEST_CASE("exact_exp of 0 is 1, so the largest of a softmax counts as exactly 1") {
  CHECK(exact_exp(0.0f) == 1.0f);
  CHECK(exact_exp(-0.0f) == 1.0f);
}

TEST_CASE("exact_exp stays at the value of the nearer end outside its range") {
  CHECK(exact_exp(1e30f) == exact_exp(87.0f));
  CHECK(exact_exp(INFINITY) == exact_exp(87.0f));
  CHECK(exact_exp(-1e30f) == exact_exp(-87.0f));
  CHECK(exact_exp(NAN) == exact_exp(-87.0f));
}

TEST_CASE("exact_exp gives the bits that were written down, on every machine") {
  CHECK(std::bit_cast<std::uint32_t>(exact_exp(1.0f)) == 0x402df854u);
  CHECK(std::bit_cast<std::uint32_t>(exact_exp(-10.0f)) == 0x383e6bceu);
  CHECK(std::bit_cast<std::uint32_t>(exact_exp(0.34657f)) == 0x3fb504c8u);
  CHECK(std::bit_cast<std::uint32_t>(exact_silu(-3.25f)) == 0xbdf872a0u);
}

TEST_CASE("lane_sum adds in its one order") {
  const float lane[8] = {1e8f, 1.0f, -1e8f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
  CHECK(lane_sum(lane) == ((1e8f + 3.0f) + (-1e8f + 5.0f)) + ((1.0f + 4.0f) + (2.0f + 6.0f)));
  CHECK(lane_sum(lane) != 1e8f + 1.0f - 1e8f + 2.0f + 3.0f + 4.0f + 5.0f + 6.0f);
}

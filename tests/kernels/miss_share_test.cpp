#include "kernels/miss_share.hpp"
#include <algorithm>
#include <catch2/catch.hpp>

namespace ebb::kernels {
namespace {

// A call costs `call`, and each expert `each` more.
std::vector<double> times_of(double call, double each) {
  std::vector<double> times;
  for (int n = 1; n <= 8; ++n) times.push_back(call + each * n);
  return times;
}

}  // namespace

TEST_CASE("misses are shared so that no other share ends sooner, whatever either way costs") {
  for (const double copy_ms : {0.01, 0.062, 0.5}) {
    for (const double call : {0.0, 0.08}) {
      for (const double each : {0.001, 0.03, 0.1, 7.0}) {
        const miss_share share(copy_ms, times_of(call, each));
        const auto slower_ms = [&](std::uint32_t on_cpu, std::uint32_t missing) {
          return std::max(on_cpu == 0 ? 0 : call + each * on_cpu, (missing - on_cpu) * copy_ms);
        };
        for (std::uint32_t missing = 0; missing <= 64; ++missing) {
          const std::uint32_t chosen = share.on_cpu(missing);
          REQUIRE(chosen <= missing);
          for (std::uint32_t other = 0; other <= missing; ++other) {
            CHECK(slower_ms(chosen, missing) <= slower_ms(other, missing) * (1 + 1e-12));
          }
        }
      }
    }
  }
}

TEST_CASE("where a call to the CPU costs more than a copy, a lone miss is copied, and many are still shared") {
  const miss_share share(0.06, times_of(0.08, 0.01));
  CHECK(share.on_cpu(1) == 0);
  CHECK(share.on_cpu(8) == 6);
}

TEST_CASE("a CPU that slows down while it serves is given fewer misses, and more when it is fast again") {
  miss_share share(0.06, times_of(0.02, 0.03));
  const std::uint32_t at_first = share.on_cpu(8);
  for (int i = 0; i < 200; ++i) share.note(5, 4 * (0.02 + 5 * 0.03));
  CHECK(share.on_cpu(8) == at_first);
  REQUIRE(share.settle());
  CHECK(share.cpu_ms(5) == Approx(4 * 0.17).epsilon(0.01));
  CHECK(share.on_cpu(8) < at_first);
  for (int i = 0; i < 200; ++i) share.note(3, 0.02 + 3 * 0.03);
  REQUIRE(share.settle());
  CHECK(share.on_cpu(8) == at_first);
}

TEST_CASE("one call that took a hundred times as long changes no share") {
  miss_share share(0.06, times_of(0, 0.04));
  share.note(4, 4 * 4.0);
  CHECK(share.cpu_ms(1) <= 0.04 * (1 + 1.0 / 16 + 1e-12));
  for (int i = 0; i < 16; ++i) share.note(4, 4 * 0.04);
  CHECK_FALSE(share.settle());
}

TEST_CASE("a share stays as it is while the CPU's times only waver, and calls without misses say nothing") {
  miss_share share(0.06, times_of(0, 0.04));
  for (int i = 0; i < 1000; ++i) share.note(4, 4 * (i % 2 == 0 ? 0.041 : 0.039));
  share.note(0, 50);
  CHECK_FALSE(share.settle());
}

TEST_CASE("beyond what was measured the CPU's times go on as they rose before") {
  const miss_share share(0.06, {0.1, 0.12, 0.14});
  CHECK(share.cpu_ms(0) == 0);
  CHECK(share.cpu_ms(3) == Approx(0.14));
  CHECK(share.cpu_ms(13) == Approx(0.34));
}

}  // namespace ebb::kernels

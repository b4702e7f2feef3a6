#include "actors/gap_histogram.hpp"
#include <catch2/catch.hpp>
#include <numeric>

namespace ebb::actors {
namespace {

TEST_CASE("a gap counts at the first bound that it does not exceed, and one above all bounds at the end") {
  gap_histogram gaps;
  gaps.note(0);
  gaps.note(1);
  gaps.note(1.001);
  gaps.note(50);
  gaps.note(1000);
  gaps.note(1000.5);
  gaps.note(1e9);
  CHECK(gaps.counts() == gap_histogram::counts_type{2, 1, 0, 0, 0, 1, 0, 0, 0, 1, 2});
  CHECK(gaps.sum_ms() == Approx(0 + 1 + 1.001 + 50 + 1000 + 1000.5 + 1e9));
}

TEST_CASE("the bounds ascend") { CHECK(std::is_sorted(limits::gap_bounds_ms.begin(), limits::gap_bounds_ms.end())); }

}  // namespace
}  // namespace ebb::actors

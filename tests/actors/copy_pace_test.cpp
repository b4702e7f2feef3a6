#include "actors/copy_pace.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <catch2/catch.hpp>

namespace ebb::actors {
namespace {

constexpr double mib = 1 << 20;
constexpr double wanted_ms = static_cast<double>(limits::copies_ahead.count());

// A link of so many bytes a millisecond, beside windows of so many milliseconds.
struct copying {
  double bytes_per_ms;
  double window_ms;
  copy_pace pace = {};

  // What a token waits for, a step and its window.
  double step() {
    const double copy_ms = static_cast<double>(pace.bytes()) / bytes_per_ms;
    const double took_ms = std::max(copy_ms, window_ms);
    pace.note(pace.bytes(), took_ms, took_ms - window_ms);
    return took_ms;
  }
  // The longest of some.
  double steps(int n) {
    double longest = 0;
    while (n-- > 0) longest = std::max(longest, step());
    return longest;
  }
};

}  // namespace

TEST_CASE("copies that somebody waits for come to take as long as they should, whatever the link") {
  for (const double gb_per_s : {3.0, 6.0, 12.0, 25.0, 52.0, 100.0}) {
    copying over{gb_per_s * 1e6, 5};
    over.steps(12);
    INFO(gb_per_s << " GB/s");
    CHECK(over.step() == Approx(wanted_ms).epsilon(0.12));
  }
}

TEST_CASE("beside windows that take longer, the link is kept busy and no step takes much longer than the window") {
  copying over{52e6, 30};
  CHECK(over.steps(20) < 46);  // of one that was begun before the speed was known
  CHECK(over.steps(20) < 34);
  CHECK(static_cast<double>(over.pace.bytes()) / 52e6 > 0.9 * 30);
}

TEST_CASE("a token that comes beside copies over PCIe 3 is late by less than 50 ms from the first step on") {
  for (const double window_ms : {2.0, 12.0, 24.0}) {
    copying over{12.4e6, window_ms};
    CHECK(over.steps(30) < 50);
  }
}

TEST_CASE("a link that becomes slower or faster is followed") {
  copying over{50e6, 3};
  over.steps(10);
  over.bytes_per_ms = 10e6;
  over.step();
  CHECK(over.step() == Approx(wanted_ms).epsilon(0.01));
  over.bytes_per_ms = 50e6;
  over.steps(20);
  CHECK(over.step() == Approx(wanted_ms).epsilon(0.12));
}

TEST_CASE("the end of a refill, which is less than a step, teaches nothing, however often it comes") {
  copying over{52e6, 3};
  over.steps(10);
  const std::uint64_t learnt = over.pace.bytes();
  for (int i = 0; i < 1000; ++i) over.pace.note(64u << 20, 1.3, 0);
  CHECK(over.pace.bytes() == learnt);
  copy_pace fresh;
  fresh.note(32u << 20, 0.7, 0.6);
  CHECK(static_cast<double>(fresh.bytes()) == 512 * mib);
}

TEST_CASE("a step stays within its bounds, however short or long it took") {
  copy_pace pace;
  CHECK(static_cast<double>(pace.bytes()) == 512 * mib);
  for (int i = 0; i < 50; ++i) pace.note(pace.bytes(), 0, 0);
  CHECK(pace.bytes() == limits::copies_ahead_bytes_max);
  pace.note(pace.bytes(), 1e9, 1e9);
  CHECK(pace.bytes() == limits::copies_ahead_bytes_min);
}

}  // namespace ebb::actors

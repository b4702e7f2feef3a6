// actors/clock.hpp: time as the actors see it. Handed in, so that tests and simulations decide what time it is.
#pragma once
#include <chrono>
#include <functional>

namespace ebb::actors {

using time_point = std::chrono::steady_clock::time_point;
using clock_fn = std::function<time_point()>;

inline clock_fn steady_clock() {
  return [] { return std::chrono::steady_clock::now(); };
}

inline double milliseconds_between(time_point from, time_point to) noexcept {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace ebb::actors

// actors/window_cost.hpp: what a window of one row takes on a stage, as base + misses * per_miss, learnt from those that ran.
//
// Least squares over (misses, ms), where a window's weight halves with every half-life of windows since. Kept as moments about the
// weighted means, which is the same as recursive least squares with forgetting, but never inverts a matrix that windows of one kind
// have made singular: while misses hardly vary, the slope stays what it was when they last did.
//
// While it was never known, a miss is taken to cost what a hit costs, so every window takes the mean. On a host card that is so: both
// are read from RAM by the same code. A slope below 0, or one that would make a window without misses cost less than nothing, is noise
// and is cut there.
#pragma once
#include <optional>

namespace ebb::actors {

class window_cost {
 public:
  // Pre: half_life_windows >= 1 (asserts).
  explicit window_cost(double half_life_windows = 256);

  // A window that ran. Pre: both >= 0 (asserts). Times above outlier_ratio means count as that much: a machine that slept, or
  // was busy elsewhere, says little of a window.
  void note(double misses, double ms) noexcept;

  // What a window with so many misses would take; none: nothing has been measured yet.
  std::optional<double> ms(double misses) const noexcept;

  // None: misses have not varied enough yet.
  std::optional<double> ms_per_miss() const noexcept { return per_miss_; }

  static constexpr double windows_min = 16;        // below it a slope is mostly noise
  static constexpr double misses_variance_min = 0.25;  // as if every other window had one miss more
  static constexpr double outlier_ratio = 8;

 private:
  double keep_;            // of a weight, a window later
  double weight_ = 0;      // of all windows so far
  double misses_ = 0, ms_ = 0;              // weighted means
  double misses_variance_ = 0, covariance_ = 0;
  std::optional<double> per_miss_;
};

}  // namespace ebb::actors

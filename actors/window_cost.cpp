#include "actors/window_cost.hpp"
#include "config/assert.hpp"
#include <algorithm>
#include <cmath>

namespace ebb::actors {

window_cost::window_cost(double half_life_windows) : keep_(std::exp2(-1.0 / half_life_windows)) { EBB_ASSERT(half_life_windows >= 1); }

void window_cost::note(double misses, double ms) noexcept {
  EBB_ASSERT(misses >= 0);
  EBB_ASSERT(ms >= 0);
  if (weight_ >= windows_min) ms = std::min(ms, outlier_ratio * ms_);
  weight_ = weight_ * keep_ + 1;
  const double share = 1 / weight_;
  const double misses_off = misses - misses_, ms_off = ms - ms_;
  misses_ += share * misses_off;
  ms_ += share * ms_off;
  misses_variance_ = (1 - share) * (misses_variance_ + share * misses_off * misses_off);
  covariance_ = (1 - share) * (covariance_ + share * misses_off * ms_off);
  if (weight_ < windows_min || misses_variance_ < misses_variance_min) return;
  per_miss_ = std::clamp(covariance_ / misses_variance_, 0.0, ms_ / misses_);
}

std::optional<double> window_cost::ms(double misses) const noexcept {
  if (weight_ == 0) return std::nullopt;
  return std::max(0.0, ms_ + per_miss_.value_or(0) * (misses - misses_));
}

}  // namespace ebb::actors

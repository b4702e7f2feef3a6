#include "actors/yield_policy.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <utility>

namespace ebb::actors {

namespace {

double margin_of(const yield_reading& what) { return std::min(limits::yield_margin_mib, what.full_mib); }

}  // namespace

yield_policy::yield_policy(std::optional<double> ceiling_mib) : ceiling_mib_(ceiling_mib), calm_(limits::yield_calm_min) {}

std::optional<yield_order> yield_policy::take(const yield_reading& what) {
  const double over_mib = what.free_mib - what.mark_mib;
  low_readings_ = over_mib < 0 ? low_readings_ + 1 : 0;
  if (over_mib < margin_of(what)) calm_since_.reset();
  else if (!calm_since_) calm_since_ = what.now;
  if (low_readings_ >= limits::yield_readings) return give(what);
  if (ceiling_mib_ && calm_since_ && what.now - *calm_since_ >= calm_) return take_back(what);
  return std::nullopt;
}

std::optional<yield_order> yield_policy::give(const yield_reading& what) {
  low_readings_ = 0;  // what is given shows only after the next readings
  if (const auto grown = std::exchange(grown_at_, std::nullopt)) {
    const bool relapse = what.now - *grown < std::max<std::chrono::nanoseconds>(limits::yield_relapse, calm_);
    calm_ = relapse ? std::min<std::chrono::nanoseconds>(2 * calm_, limits::yield_calm_max) : std::chrono::nanoseconds(limits::yield_calm_min);
  }
  if (what.cache_mib <= 0) return std::nullopt;  // there is nothing more to give
  // What has been ordered and is not carried out yet is part of what is missing now.
  const double missing_mib = std::min(what.mark_mib - what.free_mib, limits::yield_step_mib);
  ceiling_mib_ = std::max(0.0, std::min(ceiling_mib_.value_or(what.cache_mib), what.cache_mib - missing_mib));
  return yield_order{ceiling_mib_};
}

std::optional<yield_order> yield_policy::take_back(const yield_reading& what) {
  calm_since_ = what.now;
  grown_at_ = what.now;
  const double over_mib = what.free_mib - what.mark_mib - margin_of(what) / 2;
  ceiling_mib_ = what.cache_mib + std::min(over_mib, limits::yield_step_mib);
  if (*ceiling_mib_ >= what.full_mib) ceiling_mib_.reset();
  return yield_order{ceiling_mib_};
}

}  // namespace ebb::actors

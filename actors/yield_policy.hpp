// actors/yield_policy.hpp: when a cache gives way to other programs unasked, and when it takes the memory back.
//
//   give   free stays below the mark for a few readings -> the ceiling goes down by what is missing, a step at most
//   take   free stays above mark + margin for the calm  -> the ceiling goes up by what is over, a step at most, then off at full size
//
// The margin is limits::yield_margin_mib, or the size of a cache that is smaller than that.
//
// Between the mark and the margin above it nothing changes, and a step up ends half a margin above the mark, so that the cache's own
// growth is never taken for a neighbour's. A neighbour that sizes itself by the free figure would still grow with each step down and
// shrink with each step up: one that pushes the cache down again soon after it has grown doubles the calm, up to a bound, and one
// that leaves it alone for longer brings the first calm back. So the two change direction ever more rarely, and not at all while
// the neighbour's own period is shorter than the calm.
//
// A plain class: no CAF, no clock, no device. One a card.
#pragma once
#include "actors/clock.hpp"
#include <optional>

namespace ebb::actors {

struct yield_reading {
  time_point now{};
  double free_mib = 0;    // by the device's own figure
  double cache_mib = 0;   // mapped
  double full_mib = 0;    // the most that the cache can use
  double mark_mib = 0;    // that must be free
};

// A new ceiling for the ledger; none: no limit any more.
struct yield_order {
  std::optional<double> ceiling_mib;
};

class yield_policy {
 public:
  // `ceiling_mib`: what an earlier watcher had ordered; none: nothing.
  explicit yield_policy(std::optional<double> ceiling_mib = {});

  // Readings come in the order of their time. None: all stays as it is.
  std::optional<yield_order> take(const yield_reading& what);

  // Whether the cache is held below what it could be.
  bool gives_way() const noexcept { return ceiling_mib_.has_value(); }

  // How long it must be calm before the next step up.
  std::chrono::nanoseconds calm() const noexcept { return calm_; }

 private:
  std::optional<yield_order> give(const yield_reading& what);
  std::optional<yield_order> take_back(const yield_reading& what);

  std::optional<double> ceiling_mib_;
  unsigned low_readings_ = 0;             // one after the other, so far
  std::optional<time_point> calm_since_;
  std::optional<time_point> grown_at_;    // the last step up that nothing has pushed down since
  std::chrono::nanoseconds calm_;
};

}  // namespace ebb::actors

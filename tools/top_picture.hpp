// tools/top_picture.hpp: what `ebb top` shows, as lines of text. Only the terminal is missing, so that it can be tested.
#pragma once
#include "bus/messages.hpp"
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace ebb::tools {

// All that a daemon said at a moment.
struct top_sample {
  double at_s = 0;  // by a clock that never goes back
  bus::status_report status;
  bus::cards_report cards;
  bus::lease_report leases;
  bus::experts_report experts;
};

// What happened between two samples.
struct top_rate {
  double at_s = 0;
  double tokens_per_s = 0;
  std::optional<double> hit_rate;        // none: no expert was asked for
  std::optional<double> longest_gap_ms;  // at most so long, of limits::gap_bounds_ms; infinite above them; none: no token had one before it
};

// None where the daemon is another one than before: its counts began anew.
std::optional<top_rate> rate_between(const top_sample& before, const top_sample& now);

class top_history {
 public:
  static constexpr std::size_t rates_max = 512;  // no terminal is wider

  void add(top_sample now);

  const std::optional<top_sample>& latest() const noexcept { return latest_; }
  const std::deque<top_rate>& rates() const noexcept { return rates_; }  // oldest first, the last rates_max

 private:
  std::optional<top_sample> latest_;
  std::deque<top_rate> rates_;
};

struct top_size {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// At most `rows` lines of at most `columns` characters, each one column wide, without escape sequences. What does not fit is left out from the
// end, and the last line then says so. Pre: a sample was added (asserts).
std::vector<std::string> draw(const top_history& history, top_size size);

}  // namespace ebb::tools

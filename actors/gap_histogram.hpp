// actors/gap_histogram.hpp: how long the clients of all answers waited between two tokens, as counts that only grow.
#pragma once
#include "config/limits.hpp"
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ebb::actors {

class gap_histogram {
 public:
  // One a bound of limits::gap_bounds_ms: gaps of up to so long, and longer than the bound before; then those above all bounds.
  using counts_type = std::array<std::uint64_t, limits::gap_bounds_ms.size() + 1>;

  void note(double ms) noexcept {
    const auto bound = std::lower_bound(limits::gap_bounds_ms.begin(), limits::gap_bounds_ms.end(), ms);
    ++counts_[static_cast<std::size_t>(bound - limits::gap_bounds_ms.begin())];
    sum_ms_ += ms;
  }

  const counts_type& counts() const noexcept { return counts_; }
  double sum_ms() const noexcept { return sum_ms_; }

 private:
  counts_type counts_{};
  double sum_ms_ = 0;
};

}  // namespace ebb::actors

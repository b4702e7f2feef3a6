#include "actors/expert_heat.hpp"
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace ebb::actors {
namespace {

// Far below the largest double, so that no sum of uses overflows; a power of two, so that scaling back is exact.
constexpr double use_max = 0x1p512;

}  // namespace

expert_heat::expert_heat(expert_range experts, double half_life_windows)
    : experts_(experts), growth_(std::exp2(1.0 / half_life_windows)), count_(experts.count(), 0.0) {
  EBB_ASSERT(half_life_windows >= 1);
}

void expert_heat::seed(std::span<const expert_id> hottest_first, double strength) {
  const auto n = static_cast<double>(hottest_first.size());
  double rank = 0;
  for (const expert_id expert : hottest_first) note(expert, strength * (n - rank++) / n);
}

void expert_heat::restore(std::span<const float> heats) {
  EBB_ASSERT(heats.size() == count_.size());
  std::transform(heats.begin(), heats.end(), count_.begin(), [this](float each) { return each * use_; });
}

std::vector<float> expert_heat::heats() const {
  std::vector<float> all(count_.size());
  std::transform(count_.begin(), count_.end(), all.begin(), [this](double each) { return static_cast<float>(each / use_); });
  return all;
}

void expert_heat::note(expert_id expert, double weight) noexcept {
  EBB_DASSERT(weight > 0);
  count_[experts_.number_of(expert)] += weight * use_;
}

void expert_heat::end_window() noexcept {
  use_ *= growth_;
  if (use_ < use_max) return;
  for (double& count : count_) count /= use_max;
  use_ /= use_max;
}

double expert_heat::heat(expert_id expert) const noexcept { return count_[experts_.number_of(expert)] / use_; }

std::vector<expert_id> expert_heat::hottest_first() const {
  std::vector<expert_id> all;
  all.reserve(experts_.count());
  for (std::uint32_t number = 0; number < experts_.count(); ++number) all.push_back(experts_.at(number));
  std::sort(all.begin(), all.end(), [this](expert_id a, expert_id b) { return is_hotter(a, b); });
  return all;
}

double expert_heat::share_of_hottest(std::uint32_t count) const {
  std::vector<double> sorted = count_;
  const std::size_t n_hot = std::min<std::size_t>(count, sorted.size());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(n_hot), sorted.end(), std::greater<>());
  const double hot = std::accumulate(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(n_hot), 0.0);
  const double all = std::accumulate(sorted.begin() + static_cast<std::ptrdiff_t>(n_hot), sorted.end(), hot);
  return all > 0 ? hot / all : static_cast<double>(n_hot) / static_cast<double>(sorted.size());
}

}  // namespace ebb::actors

// actors/expert_heat.hpp: how often each expert of a stage was used lately.
//
// The heat of an expert is the sum of its uses, each halved with every half-life that has passed since. Decay costs O(1) a window:
// the counts stay as they are and the weight of a new use grows instead; all is scaled back, by a power of two and therefore
// exactly, once in hundreds of half-lives.
#pragma once
#include "actors/expert_range.hpp"
#include <span>
#include <vector>

namespace ebb::actors {

class expert_heat {
 public:
  // Pre: half_life_windows >= 1 (asserts); infinity means no decay.
  expert_heat(expert_range experts, double half_life_windows);

  // An initial order, hottest first: they start with heats evenly spaced from `strength` uses down to almost none. Adds to what is
  // there and decays like any use, so that a strength below 1 yields to the first expert that is really used.
  void seed(std::span<const expert_id> hottest_first, double strength);

  // Heats of an earlier run, [experts_.count()], each finite and >= 0 (asserts the count). Replaces what is there, and decays like any use.
  void restore(std::span<const float> heats);

  // `weight` is in uses, > 0: the rows of a window that chose the expert.
  void note(expert_id expert, double weight = 1.0) noexcept;

  // Call once after each window. O(1), but for a rare O(n).
  void end_window() noexcept;

  // In uses of now.
  double heat(expert_id expert) const noexcept;

  // All of them, [experts_.count()], as restore() takes them.
  std::vector<float> heats() const;

  // A strict order of all experts: the hotter first; of equals the lower layer, then the lower index.
  bool is_hotter(expert_id a, expert_id b) const noexcept { return is_hotter(experts_.number_of(a), experts_.number_of(b)); }

  // The same by flat number, for loops over all experts. Pre: numbers of experts().
  bool is_hotter(std::uint32_t a, std::uint32_t b) const noexcept { return count_[a] != count_[b] ? count_[a] > count_[b] : a < b; }

  std::vector<expert_id> hottest_first() const;

  // Of all uses, the share that the `count` hottest experts have, in [0, 1]; that of any `count` experts while nothing was used.
  double share_of_hottest(std::uint32_t count) const;

  const expert_range& experts() const noexcept { return experts_; }

 private:
  expert_range experts_;
  double growth_;              // of use_, a window
  double use_ = 1.0;           // what one use adds to a count now
  std::vector<double> count_;  // [experts_.count()]; heat = count / use_
};

}  // namespace ebb::actors

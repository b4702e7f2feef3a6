// actors/copy_pace.hpp: how many bytes a card begins to copy into its cache at a time, where its device copies while windows run.
//
// The next step waits for what is not done, and no window runs meanwhile. So a step's copies should take what a window takes, but no less than
// copies_ahead (config/limits.hpp) and no more than copies_ahead_max. How fast the link is, and what windows take of it, is only seen by
// copying: a step that had to wait tells the speed; one that had not only tells that there was time for more.
#pragma once
#include <cstdint>
#include <optional>

namespace ebb::actors {

class copy_pace {
 public:
  // Of the next step.
  std::uint64_t bytes() const noexcept { return bytes_; }

  // What `bytes` took from their beginning until they were seen to have ended, for the last waited_ms of which somebody waited.
  void note(std::uint64_t bytes, double took_ms, double waited_ms) noexcept;

 private:
  std::uint64_t bytes_ = first_bytes;
  std::optional<double> bytes_per_ms_;  // of the last step that had to wait, or more, if later ones did not

  // 10 ms over PCIe 5, and 43 over PCIe 3.
  static constexpr std::uint64_t first_bytes = std::uint64_t{512} << 20;
};

}  // namespace ebb::actors

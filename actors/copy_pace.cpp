#include "actors/copy_pace.hpp"
#include "config/limits.hpp"
#include <algorithm>

namespace ebb::actors {
namespace {

constexpr double waits_ms = 0.2;  // a wait for what has ended takes less
constexpr double growth = 1.5;    // of a step after one that did not wait, while no speed is known
constexpr double whole_step = 0.9;  // less than that, the end of a refill, tells nothing of a step
constexpr double creep = 1.1;     // of a speed that such a step does not contradict

}  // namespace

void copy_pace::note(std::uint64_t bytes, double took_ms, double waited_ms) noexcept {
  const auto copied = static_cast<double>(bytes);
  if (copied < whole_step * static_cast<double>(bytes_)) return;
  const bool waited = waited_ms > waits_ms;
  if (waited) bytes_per_ms_ = copied / std::max(took_ms, waited_ms);
  else if (bytes_per_ms_) *bytes_per_ms_ *= creep;
  const double window_ms = took_ms - waited_ms;
  const double room_ms = std::clamp<double>(window_ms, limits::copies_ahead.count(), limits::copies_ahead_max.count());
  const double next = bytes_per_ms_ ? *bytes_per_ms_ * room_ms : copied * growth;
  const double least = static_cast<double>(limits::copies_ahead_bytes_min), most = static_cast<double>(limits::copies_ahead_bytes_max);
  bytes_ = static_cast<std::uint64_t>(std::clamp(next, least, most));
}

}  // namespace ebb::actors

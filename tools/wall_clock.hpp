// tools/wall_clock.hpp: the time of day, for what outlives the process or is compared with other machines.
#pragma once
#include <chrono>
#include <cstdint>

namespace ebb::tools {

inline std::uint64_t unix_ms_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace ebb::tools

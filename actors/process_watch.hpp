// actors/process_watch.hpp: whether a process is still there; handed in, so that tests and simulations decide who lives.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>

namespace ebb::actors {

// When the process began, in the system's own unit; none if there is no such process. A later process with the same number began later.
using process_watch = std::function<std::optional<std::uint64_t>(std::uint32_t pid)>;

// From /proc/PID/stat, in ticks since the system started (proc(5), field 22). A zombie is gone: it holds no memory.
process_watch system_processes();

}  // namespace ebb::actors

// kernels/memory/system_memory.hpp: how much memory this process could still take without driving the system out of it.
#pragma once
#include "config/result.hpp"
#include <cstdint>
#include <filesystem>

namespace ebb::kernels {

// MemAvailable of /proc/meminfo, and no more than the control group of this process (of version 1 or 2) has left of its limit, where
// it has one; file pages that nobody used lately count as left, since the system drops them first. Limits of enclosing groups are not
// looked at. `root` stands in front of /proc and /sys, for tests. Errors: file_unreadable (no MemAvailable; names the file).
result<std::uint64_t> available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace ebb::kernels

#include "kernels/memory/system_memory.hpp"
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

namespace ebb::kernels {
namespace {

// The first number of a file; nothing if it holds a word ("max") or cannot be read.
std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// The number after `key` in a file of lines "key number ...".
std::optional<std::uint64_t> number_after(const std::filesystem::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size(), nullptr, 10);
  return std::nullopt;
}

// How a version of control groups writes what is looked at here. A system may run both, the memory being in either.
struct group_version {
  std::string_view controllers;  // what stands between the first colon of the line and the path; version 2 has one hierarchy for all
  const char* folder;            // of all groups
  const char* limit;
  const char* used;
  std::string_view droppable;
};
constexpr group_version versions[] = {
    {"::/", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
    {":memory:/", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
};

std::optional<std::filesystem::path> own_group(const std::filesystem::path& root, const group_version& version) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto at = line.find(':');
    if (at == std::string::npos || !std::string_view(line).substr(at).starts_with(version.controllers)) continue;
    return root / version.folder / line.substr(at + version.controllers.size());
  }
  return std::nullopt;
}

std::optional<std::uint64_t> left_in_group(const std::filesystem::path& root, const group_version& version) {
  const auto group = own_group(root, version);
  if (!group) return std::nullopt;
  const auto limit = number_in(*group / version.limit);
  const auto used = number_in(*group / version.used);
  if (!limit || !used) return std::nullopt;
  const std::uint64_t droppable = number_after(*group / "memory.stat", version.droppable).value_or(0);
  const std::uint64_t needed = *used - std::min(*used, droppable);
  return *limit - std::min(*limit, needed);
}

}  // namespace

result<std::uint64_t> available_memory_bytes(const std::filesystem::path& root) {
  const auto file = root / "proc/meminfo";
  const auto available_kib = number_after(file, "MemAvailable:");
  if (!available_kib)
    return fail(errc::file_unreadable,
                file.string() + " has no line MemAvailable, so the free memory of the system is not known; is /proc mounted?");
  std::uint64_t available = *available_kib * 1024;
  for (const group_version& version : versions) available = std::min(available, left_in_group(root, version).value_or(available));
  return available;
}

}  // namespace ebb::kernels

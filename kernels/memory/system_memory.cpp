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

// Version 2 has one hierarchy, written as "0::/path".
std::optional<std::filesystem::path> own_group(const std::filesystem::path& root) {
  constexpr std::string_view prefix = "0::/";
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(prefix)) return root / "sys/fs/cgroup" / line.substr(prefix.size());
  return std::nullopt;
}

std::optional<std::uint64_t> left_in_group(const std::filesystem::path& root) {
  const auto group = own_group(root);
  if (!group) return std::nullopt;
  const auto limit = number_in(*group / "memory.max");
  const auto used = number_in(*group / "memory.current");
  if (!limit || !used) return std::nullopt;
  const std::uint64_t droppable = number_after(*group / "memory.stat", "inactive_file ").value_or(0);
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
  return std::min(*available_kib * 1024, left_in_group(root).value_or(~std::uint64_t{0}));
}

}  // namespace ebb::kernels

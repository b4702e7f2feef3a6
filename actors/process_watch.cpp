#include "actors/process_watch.hpp"
#include <fstream>
#include <sstream>
#include <string>

namespace ebb::actors {

process_watch system_processes() {
  return [](std::uint32_t pid) -> std::optional<std::uint64_t> {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    if (!std::getline(stat, line)) return std::nullopt;
    const std::size_t name_end = line.rfind(')');  // the name in parentheses may hold anything
    if (name_end == std::string::npos) return std::nullopt;
    std::istringstream fields(line.substr(name_end + 1));
    std::string state, skipped;
    fields >> state;
    if (state == "Z" || state == "X") return std::nullopt;
    for (int field = 4; field < 22; ++field) fields >> skipped;
    std::uint64_t began = 0;
    if (!(fields >> began)) return std::nullopt;
    return began;
  };
}

}  // namespace ebb::actors

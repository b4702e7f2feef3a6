#include "tools/process_memory.hpp"
#include <fstream>
#include <sstream>
#include <string>

namespace ebb::tools {

process_memory read_process_memory() {
  process_memory now;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream fields(line);
    std::string name;
    double kib = 0;
    fields >> name >> kib;
    if (name == "VmRSS:") now.rss_mib = kib / 1024;
    if (name == "RssAnon:") now.rss_anon_mib = kib / 1024;
  }
  return now;
}

}  // namespace ebb::tools

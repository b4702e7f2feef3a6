#include "tools/ebb/progress_bar.hpp"
#include <cstdio>
#include <unistd.h>
#include <utility>

namespace ebb::tools {

std::function<void(double)> progress_bar(std::string doing) {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [doing = std::move(doing)](double share) {
    constexpr int width = 40;
    const int filled = static_cast<int>(share * width);
    std::fprintf(stderr, "\r%s [%s%s] %3.0f %%", doing.c_str(), std::string(filled, '#').c_str(), std::string(width - filled, ' ').c_str(), share * 100);
    if (share >= 1) std::fputs("\r\033[K", stderr);
  };
}

}  // namespace ebb::tools

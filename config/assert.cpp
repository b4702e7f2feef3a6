#include "config/assert.hpp"
#include <cstdio>
#include <cstdlib>

namespace ebb {

void assert_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "ebb: assertion failed: %s (%s:%d)\n", condition, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace ebb

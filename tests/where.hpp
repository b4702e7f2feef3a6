// tests/where.hpp: where a test finds its files: where they were when it was built, or where a variable says, for a program that was
// carried to another machine.
#pragma once
#include <cstdlib>
#include <string>

namespace ebb::test {

inline std::string where(const char* variable, const char* built_in) {
  const char* const said = std::getenv(variable);
  return said != nullptr && *said != '\0' ? said : built_in;
}

}  // namespace ebb::test

// tests/sim/support/finding.hpp: something that a simulation found to be wrong, thrown where it shows.
#pragma once
#include <stdexcept>
#include <string>

namespace ebb::sim {

struct finding : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void hold(bool invariant, const std::string& otherwise) {
  if (!invariant) throw finding(otherwise);
}

}  // namespace ebb::sim

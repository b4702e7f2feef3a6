// tools/spread.hpp: what repeated measurements of one thing come to.
#pragma once
#include <vector>

namespace ebb::tools {

struct spread {
  double min, median, max;
};

// Pre: not empty (asserts).
spread spread_of(std::vector<double> values);

}  // namespace ebb::tools

#include "tools/spread.hpp"
#include "config/assert.hpp"
#include <algorithm>

namespace ebb::tools {

spread spread_of(std::vector<double> values) {
  EBB_ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

}  // namespace ebb::tools

#include "config/utf8.hpp"
#include "tools/ebb/commands.hpp"
#include "tools/exit_code.hpp"
#include <iostream>

namespace ebb::tools {
int report_error(const error& why) {
  std::cerr << "ebb: " << on_one_line(why.text) << " [" << to_string(why.code) << "]\n";
  return exit_code_of(why.code);
}

}  // namespace ebb::tools

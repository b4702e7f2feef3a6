#include "tools/ebb/commands.hpp"
#include "tools/exit_code.hpp"
#include <iostream>

namespace ebb::tools {
namespace {

int exit_code_of(errc code) {
  switch (code) {
    case errc::file_unreadable:
    case errc::file_unwritable:
    case errc::not_gguf:
    case errc::unsupported_version:
    case errc::truncated:
    case errc::corrupt:
    case errc::missing_key:
    case errc::unsupported_architecture:
    case errc::unsupported_format:
    case errc::unsupported_tokenizer:
    case errc::bad_value:
    case errc::unknown_key:
    case errc::unknown_device:
    case errc::malformed: return exit_usage;
    default: return exit_failed;
  }
}

}  // namespace

int report_error(const error& why) {
  std::cerr << "ebb: " << why.text << " [" << to_string(why.code) << "]\n";
  return exit_code_of(why.code);
}

}  // namespace ebb::tools

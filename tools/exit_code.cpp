#include "tools/exit_code.hpp"

namespace ebb::tools {

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

}  // namespace ebb::tools

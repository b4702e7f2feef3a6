#include "config/result.hpp"

namespace ebb {

std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::none: return "none";
    case errc::file_unreadable: return "file_unreadable";
    case errc::file_unwritable: return "file_unwritable";
    case errc::not_gguf: return "not_gguf";
    case errc::unsupported_version: return "unsupported_version";
    case errc::truncated: return "truncated";
    case errc::corrupt: return "corrupt";
    case errc::missing_key: return "missing_key";
    case errc::unsupported_architecture: return "unsupported_architecture";
    case errc::unsupported_format: return "unsupported_format";
    case errc::unsupported_tokenizer: return "unsupported_tokenizer";
    case errc::bad_value: return "bad_value";
    case errc::unknown_key: return "unknown_key";
    case errc::unknown_command: return "unknown_command";
    case errc::unknown_device: return "unknown_device";
    case errc::unknown_session: return "unknown_session";
    case errc::unknown_lease: return "unknown_lease";
    case errc::short_of: return "short_of";
    case errc::malformed: return "malformed";
    case errc::too_large: return "too_large";
    case errc::out_of_memory: return "out_of_memory";
    case errc::refused: return "refused";
    case errc::not_loaded: return "not_loaded";
    case errc::busy: return "busy";
    case errc::cancelled: return "cancelled";
    case errc::timed_out: return "timed_out";
    case errc::card_lost: return "card_lost";
    case errc::internal: return "internal";
  }
  return "unknown";
}

}  // namespace ebb

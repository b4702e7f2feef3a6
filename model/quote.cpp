#include "model/quote.hpp"
#include <cstddef>

namespace ebb::model {
namespace {
constexpr std::size_t quoted_bytes_max = 80;  // of a name in an error: published ones are below 64
}

std::string quote(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char letter : text.substr(0, quoted_bytes_max)) {
    const auto code = static_cast<unsigned char>(letter);
    if (code >= 0x20 && code < 0x7f && letter != '"' && letter != '\\') {
      out += letter;
    } else {
      out += {'\\', 'x', digits[code / 16], digits[code % 16]};
    }
  }
  return out + (text.size() > quoted_bytes_max ? "\"..." : "\"");
}

}  // namespace ebb::model

#include "bus/request_id.hpp"
#include "config/utf8.hpp"

namespace ebb::bus {

std::string to_string(const request_id& which) {
  if (const auto* number = std::get_if<std::uint64_t>(&which.value)) return std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&which.value)) return in_quotes(*text);
  return "none";
}

}  // namespace ebb::bus

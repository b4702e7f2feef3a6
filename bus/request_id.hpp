// bus/request_id.hpp: the name a client gives to a request, carried unchanged into every reply to it.
//
// A client may use an unsigned integer or a string of at most request_id_bytes_max bytes; which of the two is remembered, so that
// 7 is never answered as "7". A text command has none, and neither has a frame so broken that its id could not be read.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>

namespace ebb::bus {

inline constexpr std::size_t request_id_bytes_max = 128;  // a UUID takes 36; the gateway keeps many of them

struct request_id {
  std::variant<std::monostate, std::uint64_t, std::string> value;

  bool empty() const noexcept { return value.index() == 0; }
  friend auto operator<=>(const request_id&, const request_id&) = default;
};

// For error texts and the journal: 7, "seven" in quotes, or "none".
std::string to_string(const request_id& which);

}  // namespace ebb::bus

template <>
struct std::hash<ebb::bus::request_id> {
  std::size_t operator()(const ebb::bus::request_id& which) const noexcept {
    return std::hash<decltype(which.value)>{}(which.value);
  }
};

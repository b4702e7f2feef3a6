// bus/client_id.hpp: one connection of one client, as the ROUTER names it. Opaque bytes: for maps and for answering, not for
// showing.
#pragma once
#include <compare>
#include <functional>
#include <string>

namespace ebb::bus {

struct client_id {
  std::string routing_id;
  friend auto operator<=>(const client_id&, const client_id&) = default;
};

}  // namespace ebb::bus

template <>
struct std::hash<ebb::bus::client_id> {
  std::size_t operator()(const ebb::bus::client_id& who) const noexcept { return std::hash<std::string>{}(who.routing_id); }
};

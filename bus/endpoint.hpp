// bus/endpoint.hpp: where the bus is: "ipc:///path/of/a/socket" or "tcp://HOST:PORT".
#pragma once
#include "config/result.hpp"
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

namespace ebb::bus {

struct ipc_endpoint {
  std::filesystem::path path;  // absolute
};

struct tcp_endpoint {
  std::string host;  // as written, brackets of an IPv6 address included
  std::string port;
};

using endpoint = std::variant<ipc_endpoint, tcp_endpoint>;

// Errors: bad_value, with the two forms that are allowed.
result<endpoint> parse_endpoint(std::string_view text);

// Whether only programs of this machine can reach it: 127.0.0.0/8 or [::1], in digits.
bool is_loopback(const tcp_endpoint& where) noexcept;

// ipc://$XDG_RUNTIME_DIR/ebb/commands; without that variable /run/user/UID if it exists, else /tmp/ebb-UID.
std::string default_endpoint();

// The same, with "events" for "commands".
std::string default_events_endpoint();

}  // namespace ebb::bus

#include "bus/endpoint.hpp"
#include "config/utf8.hpp"
#include <arpa/inet.h>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <unistd.h>

namespace ebb::bus {
namespace {

constexpr std::string_view ipc_prefix = "ipc://";
constexpr std::string_view tcp_prefix = "tcp://";

bool is_port(std::string_view text) noexcept {
  std::uint16_t port = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), port);
  return status == std::errc{} && end == text.data() + text.size();
}

// As the beginning of an ipc endpoint.
std::string runtime_folder() {
  const std::string prefix(ipc_prefix);
  if (const char* runtime_dir = std::getenv("XDG_RUNTIME_DIR"); runtime_dir != nullptr && *runtime_dir == '/') {
    return prefix + runtime_dir + "/ebb";
  }
  const std::string user = std::to_string(getuid());
  std::error_code ignored;  // a folder that cannot be looked at is as good as none
  if (std::filesystem::is_directory("/run/user/" + user, ignored)) return prefix + "/run/user/" + user + "/ebb";
  return prefix + "/tmp/ebb-" + user;
}

tl::unexpected<error> bad_endpoint(std::string_view text, std::string_view what) {
  return fail(errc::bad_value,
              "endpoint " + in_quotes(text) + " " + std::string(what) + "; write ipc:///absolute/path or tcp://127.0.0.1:PORT");
}

}  // namespace

result<endpoint> parse_endpoint(std::string_view text) {
  if (text.starts_with(ipc_prefix)) {
    const std::string_view path = text.substr(ipc_prefix.size());
    if (!path.starts_with('/') || path.ends_with('/')) return bad_endpoint(text, "has no absolute path of a socket");
    return ipc_endpoint{path};
  }
  if (text.starts_with(tcp_prefix)) {
    const std::string_view address = text.substr(tcp_prefix.size());
    const std::size_t colon = address.rfind(':');
    if (colon == 0 || colon == std::string_view::npos || !is_port(address.substr(colon + 1))) {
      return bad_endpoint(text, "is not a host and a port from 0 to 65535");
    }
    return tcp_endpoint{std::string(address.substr(0, colon)), std::string(address.substr(colon + 1))};
  }
  return bad_endpoint(text, "is of no known kind");
}

bool is_loopback(const tcp_endpoint& where) noexcept {
  if (where.host == "[::1]") return true;
  in_addr address{};
  return inet_pton(AF_INET, where.host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

std::string default_endpoint() { return runtime_folder() + "/commands"; }
std::string default_events_endpoint() { return runtime_folder() + "/events"; }

}  // namespace ebb::bus

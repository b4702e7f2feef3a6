#include "bus/http/listener.hpp"
#include "config/utf8.hpp"
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <system_error>
#include <utility>

namespace ebb::bus::http {
namespace {

// The compiled-in backlog of cpp-httplib is 5, with which half of 64 clients that came at once were turned away.
constexpr int backlog = 1024;

struct host_and_port {
  std::string host;
  std::string port;
};

std::optional<host_and_port> split(const std::string& where) {
  const auto colon = where.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  std::string host = where.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string port = where.substr(colon + 1);
  std::uint16_t number = 0;
  const auto read = std::from_chars(port.data(), port.data() + port.size(), number);
  if (read.ec != std::errc{} || read.ptr != port.data() + port.size() || host.empty()) return std::nullopt;
  return host_and_port{std::move(host), port};
}

tl::unexpected<error> refused(errc code, const std::string& where, const std::string& why) {
  return fail(code, "setting `http.listen`: cannot listen at " + in_quotes(where) + ": " + why);
}

void describe(const sockaddr_storage& bound, listener& into) {
  char text[INET6_ADDRSTRLEN] = {};
  if (bound.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(bound);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
    into.address = "[" + std::string(text) + "]";
    into.port = ntohs(six.sin6_port);
    into.loopback = IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
    return;
  }
  const auto& four = reinterpret_cast<const sockaddr_in&>(bound);
  ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
  into.address = text;
  into.port = ntohs(four.sin_port);
  into.loopback = (ntohl(four.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}

}  // namespace

result<listener> listener::open(const std::string& where) {
  const auto parts = split(where);
  if (!parts) return refused(errc::bad_value, where, "it must be \"address:port\", such as \"127.0.0.1:8080\"");
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(parts->host.c_str(), parts->port.c_str(), &wanted, &found); failed != 0) {
    return refused(errc::bad_value, where, ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, ::freeaddrinfo);
  int why = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    listener made;
    made.socket = file_descriptor(::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(made.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!made.socket.is_open() || ::bind(made.socket.get(), each->ai_addr, each->ai_addrlen) != 0 || ::listen(made.socket.get(), backlog) != 0) {
      why = errno;
      continue;
    }
    sockaddr_storage bound{};
    socklen_t length = sizeof bound;
    if (::getsockname(made.socket.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
      why = errno;
      continue;
    }
    describe(bound, made);
    return made;
  }
  const errc code = why == EADDRNOTAVAIL ? errc::bad_value : errc::refused;
  return refused(code, where, std::generic_category().message(why) + (why == EADDRINUSE ? "; another program, perhaps another daemon, serves there" : ""));
}

}  // namespace ebb::bus::http

// bus/binder.hpp: binds one socket of the daemon at its endpoints, each with the guard that its kind needs.
//
//   ipc   the mode of the socket's file says who may connect, keys or no keys
//   tcp   with keys: CURVE, for the clients that the keys name. Without: only the loopback, and there for everyone
//
// ZeroMQ hands a socket's options to an endpoint when it is bound and does not look at them again (zmq_setsockopt(3)), so endpoints
// with CURVE and without can share a socket. For one thread, that of the socket.
#pragma once
#include "bus/zap_handler.hpp"
#include "config/curve_keys.hpp"
#include "config/result.hpp"
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace ebb::bus {

struct binding_options {
  std::string setting;            // where the user chose the endpoints, for error texts: "[bus] listen"
  std::size_t message_bytes_max;  // of one frame that comes in; a larger one ends its connection
  std::optional<curve_server_keys> keys;
};

class binder {
 public:
  // Throws zmq::error_t. Both must outlive it; close the socket before.
  binder(zmq::context_t& context, zmq::socket_t& socket, binding_options options);
  ~binder() { remove_files(); }
  binder(const binder&) = delete;
  binder& operator=(const binder&) = delete;

  // "ipc:///path" (mode 0600; its folder is created with mode 0700; the file of a dead daemon is replaced) or "tcp://HOST:PORT"
  // (port 0 picks a free one). Errors: bad_value (no such kind of endpoint), refused (a live daemon has it; not a loopback address
  // and no keys), file_unwritable.
  result<void> bind(const std::string& text);

  // As bound, with the port that was picked.
  const std::vector<std::string>& endpoints() const noexcept { return endpoints_; }

  // Handshakes that wait for an answer; none if no endpoint has CURVE.
  zap_handler* handshakes() noexcept { return handshakes_ ? &*handshakes_ : nullptr; }

  // The socket files that it made.
  void remove_files();

 private:
  result<void> bind_ipc(const std::filesystem::path& path, const std::string& text);
  result<void> bind_tcp(const std::string& host, const std::string& text);
  void demand_keys();
  void demand_nothing();

  zmq::socket_t& socket_;
  binding_options options_;
  std::optional<zap_handler> handshakes_;
  std::vector<std::string> endpoints_;
  std::vector<std::filesystem::path> socket_files_;
};

}  // namespace ebb::bus

// bus/daemon_link.hpp: a client's socket of any kind with one connection to a daemon, and what became of that connection.
#pragma once
#include "bus/bytes.hpp"
#include "bus/connection_monitor.hpp"
#include "config/curve_keys.hpp"
#include "config/result.hpp"
#include <chrono>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace ebb::bus {

// For one thread. All may throw zmq::error_t.
class daemon_link {
 public:
  daemon_link(zmq::socket_type kind, std::string address);
  daemon_link(const daemon_link&) = delete;
  daemon_link& operator=(const daemon_link&) = delete;

  // For options that must be set before connect(), and to send.
  zmq::socket_t& socket() noexcept { return socket_; }
  const std::string& address() const noexcept { return address_; }

  // Waits until the handshake is over, so that a missing daemon or a wrong key is an error here and not a silence later. Keys count
  // on tcp only. Once. Errors: bad_value (no such kind of endpoint), refused (no daemon there, or it does not let this client in;
  // the text says which), timed_out.
  result<void> connect(std::chrono::milliseconds timeout, const std::optional<curve_client_keys>& keys);

  // The parts of the next message. Errors: timed_out, refused (the daemon has gone; said at once, not after the timeout).
  result<std::vector<bytes>> receive(std::chrono::milliseconds timeout);

  // Takes note of all that has happened; false once the connection has ended.
  bool still_connected();
  tl::unexpected<error> daemon_left() const;

 private:
  result<void> await_handshake(std::chrono::milliseconds timeout);
  tl::unexpected<error> failed_handshake(const connection_monitor::event& event) const;
  tl::unexpected<error> no_daemon() const;
  tl::unexpected<error> keys_wanted() const;
  std::optional<std::vector<bytes>> arrived();

  std::string address_;
  std::optional<std::string> public_key_;  // of the client, if it showed one
  bool over_tcp_ = false;
  zmq::context_t context_;
  zmq::socket_t socket_;
  connection_monitor monitor_;
  bool connected_ = false;
};

}  // namespace ebb::bus

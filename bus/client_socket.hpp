// bus/client_socket.hpp: a client's end of the bus: a DEALER that never waits without a limit. For one thread.
#pragma once
#include "bus/bytes.hpp"
#include "config/curve_keys.hpp"
#include "config/result.hpp"
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace ebb::bus {

class daemon_link;

class client_socket {
 public:
  // Waits until the handshake is over; keys count on tcp only. Errors: those of daemon_link::connect.
  static result<client_socket> connect(const std::string& address, std::chrono::milliseconds timeout,
                                       const std::optional<curve_client_keys>& keys = {});

  ~client_socket();
  client_socket(client_socket&&) noexcept;
  client_socket& operator=(client_socket&&) noexcept;

  // Errors: too_large, busy (the daemon does not read), refused (it has gone).
  result<void> send(bytes_view frame);

  // The next reply to any request. Errors: timed_out, refused (the daemon has gone; said at once, not after the timeout).
  result<bytes> receive(std::chrono::milliseconds timeout);

 private:
  explicit client_socket(std::unique_ptr<daemon_link> connected);
  std::unique_ptr<daemon_link> link_;
};

}  // namespace ebb::bus

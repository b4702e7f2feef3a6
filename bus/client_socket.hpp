// bus/client_socket.hpp: a client's end of the bus: a DEALER that never waits without a limit. For one thread.
#pragma once
#include "bus/bytes.hpp"
#include "config/result.hpp"
#include <chrono>
#include <memory>
#include <string>

namespace ebb::bus {

class client_socket {
 public:
  // Waits until the daemon has answered the handshake, so that a missing daemon is an error here and not a silence later.
  // Errors: bad_value (no such kind of endpoint), refused (no daemon there), timed_out.
  static result<client_socket> connect(const std::string& address, std::chrono::milliseconds timeout);

  ~client_socket();
  client_socket(client_socket&&) noexcept;
  client_socket& operator=(client_socket&&) noexcept;

  // Errors: too_large, busy (the daemon does not read), refused (it has gone).
  result<void> send(bytes_view frame);

  // The next reply to any request. Errors: timed_out, refused (the daemon has gone; said at once, not after the timeout).
  result<bytes> receive(std::chrono::milliseconds timeout);

 private:
  struct state;
  explicit client_socket(std::unique_ptr<state> connected);
  std::unique_ptr<state> state_;
};

}  // namespace ebb::bus

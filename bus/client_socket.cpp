#include "bus/client_socket.hpp"
#include "bus/daemon_link.hpp"
#include "config/limits.hpp"
#include <utility>

namespace ebb::bus {

client_socket::client_socket(std::unique_ptr<daemon_link> connected) : link_(std::move(connected)) {}
client_socket::~client_socket() = default;
client_socket::client_socket(client_socket&&) noexcept = default;
client_socket& client_socket::operator=(client_socket&&) noexcept = default;

result<client_socket> client_socket::connect(const std::string& address, std::chrono::milliseconds timeout,
                                             const std::optional<curve_client_keys>& keys) try {
  auto made = std::make_unique<daemon_link>(zmq::socket_type::dealer, address);
  if (auto answered = made->connect(timeout, keys); !answered) return fail(answered.error());
  return client_socket(std::move(made));
} catch (const std::exception& thrown) {
  return fail(errc::internal, "cannot connect to " + address + ": " + thrown.what());
}

result<void> client_socket::send(bytes_view frame) try {
  if (frame.size() > limits::message_bytes_max) {
    return fail(errc::too_large, "the message has " + std::to_string(frame.size()) + " bytes; the daemon takes at most " +
                                     std::to_string(limits::message_bytes_max));
  }
  if (!link_->still_connected()) return link_->daemon_left();
  if (link_->socket().send(zmq::buffer(frame.data(), frame.size()), zmq::send_flags::dontwait)) return {};
  return fail(errc::busy, "the daemon at " + link_->address() + " does not read what was sent before; try again");
} catch (const std::exception& thrown) {
  return fail(errc::internal, std::string("cannot send: ") + thrown.what());
}

result<bytes> client_socket::receive(std::chrono::milliseconds timeout) try {
  return link_->receive(timeout).map([](std::vector<bytes> parts) { return std::move(parts.back()); });
} catch (const std::exception& thrown) {
  return fail(errc::internal, std::string("cannot receive: ") + thrown.what());
}

}  // namespace ebb::bus

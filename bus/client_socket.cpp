#include "bus/client_socket.hpp"
#include "bus/connection_monitor.hpp"
#include "bus/endpoint.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <utility>
#include <zmq.hpp>

namespace ebb::bus {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int connection_events =
    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED;

milliseconds left_until(clock::time_point deadline) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(deadline - clock::now()));
}

std::string after(milliseconds waited) { return std::to_string(waited.count()) + " ms"; }

}  // namespace

struct client_socket::state {
  explicit state(std::string where) : address(std::move(where)) {
    dealer.set(zmq::sockopt::linger, static_cast<int>(limits::stop_linger.count()));
    // A new connection would be a new client to the daemon, and the replies to the old one lost without a word.
    dealer.set(zmq::sockopt::reconnect_ivl, -1);
  }

  tl::unexpected<error> no_daemon() const {
    return fail(errc::refused, "no daemon at " + address + "; start ebbd, or pass --connect with its address");
  }
  tl::unexpected<error> daemon_left() const {
    return fail(errc::refused, "the daemon at " + address + " has gone; start ebbd again");
  }

  // Takes all events; false once the connection has ended.
  bool still_connected() {
    while (const auto event = monitor.next()) connected = connected && event->what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    return connected;
  }

  result<void> await_handshake(milliseconds timeout) {
    const auto deadline = clock::now() + timeout;
    zmq_pollitem_t item{monitor.handle(), 0, ZMQ_POLLIN, 0};
    while (zmq_poll(&item, 1, left_until(deadline).count()) != 0) {
      const auto event = monitor.next();
      if (!event) continue;
      if (event->what != ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return no_daemon();
      connected = true;
      return {};
    }
    return fail(errc::timed_out, "the daemon at " + address + " did not answer within " + after(timeout) + "; is it stopped?");
  }

  // A reply that has arrived, without waiting.
  std::optional<bytes> arrived() {
    zmq::message_t frame;
    if (!dealer.recv(frame, zmq::recv_flags::dontwait)) return std::nullopt;
    const auto* begin = frame.data<std::byte>();
    return bytes(begin, begin + frame.size());
  }

  std::string address;
  zmq::context_t context;
  zmq::socket_t dealer{context, zmq::socket_type::dealer};
  connection_monitor monitor{context, dealer, connection_events};
  bool connected = false;
};

client_socket::client_socket(std::unique_ptr<state> connected) : state_(std::move(connected)) {}
client_socket::~client_socket() = default;
client_socket::client_socket(client_socket&&) noexcept = default;
client_socket& client_socket::operator=(client_socket&&) noexcept = default;

result<client_socket> client_socket::connect(const std::string& address, milliseconds timeout) try {
  if (const auto where = parse_endpoint(address); !where) return fail(where.error());
  auto made = std::make_unique<state>(address);
  made->dealer.connect(address);
  if (auto answered = made->await_handshake(timeout); !answered) return fail(answered.error());
  return client_socket(std::move(made));
} catch (const std::exception& thrown) {
  return fail(errc::internal, "cannot connect to " + address + ": " + thrown.what());
}

result<void> client_socket::send(bytes_view frame) try {
  if (frame.size() > limits::message_bytes_max) {
    return fail(errc::too_large, "the message has " + std::to_string(frame.size()) + " bytes; the daemon takes at most " +
                                     std::to_string(limits::message_bytes_max));
  }
  if (!state_->still_connected()) return state_->daemon_left();
  if (state_->dealer.send(zmq::buffer(frame.data(), frame.size()), zmq::send_flags::dontwait)) return {};
  return fail(errc::busy, "the daemon at " + state_->address + " does not read what was sent before; try again");
} catch (const std::exception& thrown) {
  return fail(errc::internal, std::string("cannot send: ") + thrown.what());
}

result<bytes> client_socket::receive(milliseconds timeout) try {
  const auto deadline = clock::now() + timeout;
  while (true) {
    // The end of a connection is announced after everything that came over it, so in this order nothing is missed.
    const bool connected = state_->still_connected();
    if (auto frame = state_->arrived()) return std::move(*frame);
    if (!connected) return state_->daemon_left();
    const auto left = left_until(deadline);
    if (left == milliseconds(0))
      return fail(errc::timed_out, "the daemon at " + state_->address + " sent nothing within " + after(timeout));
    zmq_pollitem_t items[] = {{state_->dealer.handle(), 0, ZMQ_POLLIN, 0}, {state_->monitor.handle(), 0, ZMQ_POLLIN, 0}};
    zmq_poll(items, 2, left.count());
  }
} catch (const std::exception& thrown) {
  return fail(errc::internal, std::string("cannot receive: ") + thrown.what());
}

}  // namespace ebb::bus

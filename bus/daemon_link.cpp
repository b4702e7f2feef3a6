#include "bus/daemon_link.hpp"
#include "bus/endpoint.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <utility>

namespace ebb::bus {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int handshake_failures =
    ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
constexpr int connection_events =
    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED | handshake_failures;

milliseconds left_until(clock::time_point deadline) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(deadline - clock::now()));
}

std::string after(milliseconds waited) { return std::to_string(waited.count()) + " ms"; }

bytes content_of(const zmq::message_t& part) {
  const auto* begin = part.data<std::byte>();
  return {begin, begin + part.size()};
}

}  // namespace

daemon_link::daemon_link(zmq::socket_type kind, std::string address)
    : address_(std::move(address)), socket_(context_, kind), monitor_(context_, socket_, connection_events) {
  socket_.set(zmq::sockopt::linger, static_cast<int>(limits::stop_linger.count()));
  // A new connection would be a new client to the daemon, and what was sent to the old one lost without a word. "Never" (-1) will
  // not do: ZeroMQ then throws away what has arrived and is not read yet when the connection ends.
  socket_.set(zmq::sockopt::reconnect_ivl, static_cast<int>(limits::reconnect_interval.count()));
}

result<void> daemon_link::connect(milliseconds timeout, const std::optional<curve_client_keys>& keys) {
  const auto where = parse_endpoint(address_);
  if (!where) return fail(where.error());
  over_tcp_ = std::holds_alternative<tcp_endpoint>(*where);
  if (over_tcp_ && keys) {
    public_key_ = keys->public_key;
    socket_.set(zmq::sockopt::curve_publickey, keys->public_key);
    socket_.set(zmq::sockopt::curve_secretkey, keys->secret_key);
    socket_.set(zmq::sockopt::curve_serverkey, keys->server_key);
  }
  socket_.connect(address_);
  return await_handshake(timeout);
}

result<void> daemon_link::await_handshake(milliseconds timeout) {
  const auto deadline = clock::now() + timeout;
  zmq_pollitem_t item{monitor_.handle(), 0, ZMQ_POLLIN, 0};
  while (zmq_poll(&item, 1, left_until(deadline).count()) != 0) {
    const auto event = monitor_.next();
    if (!event) continue;
    if (event->what != ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return failed_handshake(*event);
    connected_ = true;
    return {};
  }
  return fail(errc::timed_out, "the daemon at " + address_ + " did not answer within " + after(timeout) + "; is it stopped?");
}

tl::unexpected<error> daemon_link::failed_handshake(const connection_monitor::event& event) const {
  if (event.what == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    return fail(errc::refused, "the daemon at " + address_ + " does not let this client in: put its public key, " +
                                   public_key_.value_or("none") + ", into `clients` of the daemon's file of keys and start ebbd again");
  }
  if ((event.what & handshake_failures) == 0 || !over_tcp_) return no_daemon();
  if (!public_key_) return keys_wanted();
  if (event.value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) {
    return fail(errc::refused, "the daemon at " + address_ + " has no CURVE keys; give it some ([bus] curve_keys), or leave --keys out");
  }
  return fail(errc::refused,
              "the daemon at " + address_ + " did not finish the handshake; is its public key the `server` in the file of --keys?");
}

tl::unexpected<error> daemon_link::no_daemon() const {
  return fail(errc::refused, "no daemon at " + address_ + "; start ebbd, or pass --connect with its address");
}

// A daemon may close the connection before it has said that it wants keys, so the text does not depend on it.
tl::unexpected<error> daemon_link::keys_wanted() const {
  return fail(errc::refused,
              "the daemon at " + address_ +
                  " ended the handshake: it wants CURVE keys; make some there with `ebb keys client`, and pass --keys with the file");
}

tl::unexpected<error> daemon_link::daemon_left() const {
  return fail(errc::refused, "the daemon at " + address_ + " has gone; start ebbd again");
}

bool daemon_link::still_connected() {
  while (const auto event = monitor_.next()) connected_ = connected_ && event->what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
  return connected_;
}

std::optional<std::vector<bytes>> daemon_link::arrived() {
  std::vector<bytes> parts;
  zmq::message_t part;
  do {
    if (!socket_.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;  // never within a message: its parts arrive together
    parts.push_back(content_of(part));
  } while (part.more());
  return parts;
}

result<std::vector<bytes>> daemon_link::receive(milliseconds timeout) {
  const auto deadline = clock::now() + timeout;
  while (true) {
    // The end of a connection is announced after everything that came over it, so in this order nothing is missed.
    const bool connected = still_connected();
    if (auto parts = arrived()) return *std::move(parts);
    if (!connected) return daemon_left();
    const auto left = left_until(deadline);
    if (left == milliseconds(0)) return fail(errc::timed_out, "the daemon at " + address_ + " sent nothing within " + after(timeout));
    zmq_pollitem_t items[] = {{socket_.handle(), 0, ZMQ_POLLIN, 0}, {monitor_.handle(), 0, ZMQ_POLLIN, 0}};
    zmq_poll(items, 2, left.count());
  }
}

}  // namespace ebb::bus

#include "bus/router_socket.hpp"
#include "bus/binder.hpp"
#include "bus/client_table.hpp"
#include "bus/codec.hpp"
#include "bus/connection_monitor.hpp"
#include "bus/outbox.hpp"
#include "bus/thread_signals.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <zmq.hpp>

namespace ebb::bus {
namespace {

enum class sent : std::uint8_t { yes, no_room, unreachable };

// Whether a single part went out. The first part decides for the message: ZeroMQ takes the others without asking again.
sent send_part(zmq::socket_t& router, bytes_view part, int flags) {
  if (zmq_send(router.handle(), part.data(), part.size(), flags | ZMQ_DONTWAIT) >= 0) return sent::yes;
  return zmq_errno() == EAGAIN ? sent::no_room : sent::unreachable;
}

sent send_message(zmq::socket_t& router, const client_id& to, bool delimited, bytes_view frame) {
  const sent first = send_part(router, as_bytes(to.routing_id), ZMQ_SNDMORE);
  if (first != sent::yes) return first;
  if (delimited) send_part(router, {}, ZMQ_SNDMORE);
  return send_part(router, frame, 0);
}

// The parts after the routing id, as clients may send them: one, or an empty one and then one.
struct received {
  client_id from;
  int connection = -1;
  std::vector<zmq::message_t> parts;

  bool delimited() const { return parts.size() > 1 && parts.front().empty(); }
  bool well_formed() const { return parts.size() == 1 || (parts.size() == 2 && delimited()); }
  bytes frame() const {
    const auto* begin = parts.back().data<std::byte>();
    return {begin, begin + parts.back().size()};
  }
};

std::optional<received> receive_message(zmq::socket_t& router) {
  zmq::message_t part;
  if (!router.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
  received message{{part.to_string()}, -1, {}};
  for (bool more = part.more(); more;) {
    zmq::message_t& next = message.parts.emplace_back();
    static_cast<void>(router.recv(next, zmq::recv_flags::dontwait));  // a message arrives with all of its parts
    message.connection = zmq_msg_get(next.handle(), ZMQ_SRCFD);
    more = next.more();
  }
  return message;
}

}  // namespace

// Between start() and stop() the ZeroMQ sockets and the clients belong to the thread; only the outbox is shared.
class router_socket::loop {
 public:
  explicit loop(const std::optional<curve_server_keys>& keys)
      : binder_(context_, router_, {.setting = "[bus] listen", .message_bytes_max = limits::message_bytes_max, .keys = keys}) {
    router_.set(zmq::sockopt::router_mandatory, true);  // a reply that cannot go out is reported, not dropped
    router_.set(zmq::sockopt::sndhwm, limits::send_high_water);
    router_.set(zmq::sockopt::rcvhwm, limits::receive_high_water);
    router_.set(zmq::sockopt::linger, static_cast<int>(limits::stop_linger.count()));
  }

  ~loop() { stop(); }

  result<void> bind(const std::string& endpoint) { return binder_.bind(endpoint); }

  void start(handlers handle) {
    EBB_ASSERT(!thread_.joinable());
    handle_ = std::move(handle);
    thread_ = std::thread([this] {
      block_signals();
      run();
    });
  }

  void stop() {
    stopping_ = true;
    outbox_.wake();
    if (thread_.joinable()) thread_.join();
    binder_.remove_files();
    monitor_.reset();
    router_.close();
  }

  result<void> send(const client_id& to, bytes frame) { return outbox_.push(to, std::move(frame)); }
  const std::vector<std::string>& endpoints() const noexcept { return binder_.endpoints(); }

 private:
  void run() noexcept {
    while (!stopping_) {
      wait();
      if (auto* handshakes = binder_.handshakes()) handshakes->answer();
      read_frames();  // before the departures, so that a client's last frames mostly come before its end
      read_monitor();
      send_queued();
      send_waiting();
    }
    send_queued();  // what was pushed before the stop still has limits::stop_linger
  }

  void wait() {
    auto* handshakes = binder_.handshakes();
    zmq_pollitem_t items[] = {
        {router_.handle(), 0, static_cast<short>(has_room() ? ZMQ_POLLIN : 0), 0},
        {monitor_->handle(), 0, ZMQ_POLLIN, 0},
        {nullptr, outbox_.readable_fd(), ZMQ_POLLIN, 0},
        {handshakes != nullptr ? handshakes->handle() : nullptr, 0, ZMQ_POLLIN, 0},  // last, since it may be left out
    };
    long timeout_ms = clients_.held_up().empty() ? -1 : static_cast<long>(limits::resend_interval.count());
    if (items[0].events == 0) timeout_ms = static_cast<long>(limits::room_interval.count());
    zmq_poll(items, handshakes != nullptr ? 4 : 3, timeout_ms);
  }

  bool has_room() const { return !handle_.has_room || handle_.has_room(); }

  void read_monitor() {
    while (const auto event = monitor_->next()) {
      if (event->what == ZMQ_EVENT_ACCEPTED) {
        clients_.opened(event->value);
        continue;
      }
      for (const client_id& who : clients_.closed(event->value)) gone(who);
    }
  }

  void read_frames() {
    for (int count = 0; count < limits::frames_per_turn && has_room(); ++count) {
      const auto message = receive_message(router_);
      if (!message) return;
      handle_message(*message);
    }
  }

  void handle_message(const received& message) {
    // A descriptor's number is used again. The end of its earlier connection was announced before this one began, so it must be
    // heard before the number is written down for this client.
    if (!clients_.knows(message.from, message.connection)) read_monitor();
    const bool connected = clients_.seen(message.from, message.connection, message.delimited());
    if (message.well_formed()) {
      handle_.on_frame(message.from, message.frame());
    } else {
      refuse_shape(message);
    }
    if (!connected) gone(message.from);
  }

  void refuse_shape(const received& message) {
    const std::string text =
        "a message must have one part, or an empty part and then one, not " + std::to_string(message.parts.size());
    // A client with a full backlog reads nothing, so it would not read this either.
    static_cast<void>(send(message.from, encode_reply({{}, error{errc::malformed, text}}, false)));
  }

  void send_queued() {
    for (outbox::item& item : outbox_.take()) {
      connected_client* client = clients_.find(item.to);
      if (client == nullptr) {
        outbox_.settle(item.to, 1);  // it has left, and on_gone has said so
        continue;
      }
      client->waiting.push_back(std::move(item.frame));
      if (client->waiting.size() == 1) send_waiting_of(item.to, *client);
    }
  }

  void send_waiting() {
    for (const client_id& who : clients_.held_up()) send_waiting_of(who, *clients_.find(who));
  }

  void send_waiting_of(const client_id& who, connected_client& client) {
    while (!client.waiting.empty()) {
      const sent outcome = send_message(router_, who, client.delimited, client.waiting.front());
      if (outcome == sent::no_room) return;
      if (outcome == sent::unreachable) return gone(who);
      client.waiting.pop_front();
      outbox_.settle(who, 1);
    }
  }

  void gone(const client_id& who) {
    const connected_client* client = clients_.find(who);
    if (client == nullptr) return;
    outbox_.settle(who, client->waiting.size());
    clients_.erase(who);
    handle_.on_gone(who);
  }

  handlers handle_;
  zmq::context_t context_;
  zmq::socket_t router_{context_, zmq::socket_type::router};
  std::optional<connection_monitor> monitor_{std::in_place, context_, router_, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED};
  binder binder_;
  client_table clients_;
  outbox outbox_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

router_socket::router_socket(std::unique_ptr<loop> bound) : loop_(std::move(bound)) {}
router_socket::~router_socket() = default;

result<std::unique_ptr<router_socket>> router_socket::open(const std::vector<std::string>& endpoints,
                                                              const std::optional<curve_server_keys>& keys) try {
  auto made = std::make_unique<loop>(keys);
  for (const std::string& each : endpoints) {
    if (auto bound = made->bind(each); !bound) return fail(bound.error());
  }
  return std::unique_ptr<router_socket>(new router_socket(std::move(made)));
} catch (const std::exception& thrown) {
  return fail(errc::internal, std::string("cannot open the bus: ") + thrown.what());
}

void router_socket::start(handlers handle) { loop_->start(std::move(handle)); }
void router_socket::stop() { loop_->stop(); }
result<void> router_socket::send(const client_id& to, bytes frame) { return loop_->send(to, std::move(frame)); }
const std::vector<std::string>& router_socket::endpoints() const noexcept { return loop_->endpoints(); }

}  // namespace ebb::bus

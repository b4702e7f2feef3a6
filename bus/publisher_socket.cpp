#include "bus/publisher_socket.hpp"
#include "bus/binder.hpp"
#include "bus/thread_signals.hpp"
#include "bus/wake_event.hpp"
#include "config/limits.hpp"
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <zmq.hpp>

namespace ebb::bus {
namespace {

struct event {
  bytes topic;
  bytes frame;
  std::size_t size_bytes() const noexcept { return topic.size() + frame.size(); }
};

// Events on their way from any thread to the socket's.
class event_queue {
 public:
  result<void> push(event what) {
    bool was_empty = false;
    {
      const std::lock_guard lock(mutex_);
      if (queued_.size() >= limits::events_queued_max || queued_bytes_ + what.size_bytes() > limits::events_queued_bytes_max) {
        return fail(errc::busy, std::to_string(queued_.size()) + " events wait to be sent already; this one is dropped");
      }
      was_empty = queued_.empty();
      queued_bytes_ += what.size_bytes();
      queued_.push_back(std::move(what));
    }
    if (was_empty) wake();
    return {};
  }

  std::vector<event> take() {
    event_.take();  // before the queue: a push in between wakes once too often, never once too seldom
    const std::lock_guard lock(mutex_);
    queued_bytes_ = 0;
    return std::exchange(queued_, {});
  }

  void wake() { event_.wake(); }
  int readable_fd() const noexcept { return event_.fd(); }

 private:
  std::mutex mutex_;
  std::vector<event> queued_;
  std::size_t queued_bytes_ = 0;
  wake_event event_;
};

result<void> check_size(std::string_view what, std::size_t size_bytes, std::size_t allowed_bytes) {
  if (size_bytes <= allowed_bytes) return {};
  return fail(errc::too_large, "the " + std::string(what) + " of an event has " + std::to_string(size_bytes) + " bytes; allowed: up to " +
                                   std::to_string(allowed_bytes));
}

}  // namespace

// The ZeroMQ sockets belong to the thread; only the queue is shared.
class publisher_socket::loop {
 public:
  explicit loop(const std::optional<curve_server_keys>& keys)
      : binder_(context_, publisher_, {.setting = "[bus] events", .message_bytes_max = limits::subscription_bytes_max, .keys = keys}) {
    publisher_.set(zmq::sockopt::sndhwm, limits::events_high_water);
    publisher_.set(zmq::sockopt::linger, static_cast<int>(limits::stop_linger.count()));
  }

  ~loop() {
    stopping_ = true;
    queue_.wake();
    if (thread_.joinable()) thread_.join();
    binder_.remove_files();
    publisher_.close();
  }

  result<void> bind(const std::string& endpoint) { return binder_.bind(endpoint); }

  void start() {
    thread_ = std::thread([this] {
      block_signals();
      run();
    });
  }

  result<void> publish(event what) { return queue_.push(std::move(what)); }
  const std::vector<std::string>& endpoints() const noexcept { return binder_.endpoints(); }

 private:
  void run() noexcept {
    while (!stopping_) {
      wait();
      if (auto* handshakes = binder_.handshakes()) handshakes->answer();
      send_queued();
    }
    send_queued();  // what was published before the stop still has limits::stop_linger
  }

  // A PUB is never readable, but while it is waited for it takes the subscriptions that come in.
  void wait() {
    auto* handshakes = binder_.handshakes();
    zmq_pollitem_t items[] = {
        {publisher_.handle(), 0, ZMQ_POLLIN, 0},
        {nullptr, queue_.readable_fd(), ZMQ_POLLIN, 0},
        {handshakes != nullptr ? handshakes->handle() : nullptr, 0, ZMQ_POLLIN, 0},  // last, since it may be left out
    };
    zmq_poll(items, handshakes != nullptr ? 3 : 2, -1);
  }

  // A PUB drops a message for a subscriber who has no room, and never waits.
  void send_queued() {
    for (const event& each : queue_.take()) {
      publisher_.send(zmq::buffer(each.topic.data(), each.topic.size()), zmq::send_flags::sndmore);
      publisher_.send(zmq::buffer(each.frame.data(), each.frame.size()), zmq::send_flags::none);
    }
  }

  zmq::context_t context_;
  zmq::socket_t publisher_{context_, zmq::socket_type::pub};
  binder binder_;
  event_queue queue_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

publisher_socket::publisher_socket(std::unique_ptr<loop> bound) : loop_(std::move(bound)) {}
publisher_socket::~publisher_socket() = default;

result<std::unique_ptr<publisher_socket>> publisher_socket::open(const std::vector<std::string>& endpoints,
                                                                 const std::optional<curve_server_keys>& keys) try {
  auto made = std::make_unique<loop>(keys);
  for (const std::string& each : endpoints) {
    if (auto bound = made->bind(each); !bound) return fail(bound.error());
  }
  made->start();
  return std::unique_ptr<publisher_socket>(new publisher_socket(std::move(made)));
} catch (const std::exception& thrown) {
  return fail(errc::internal, std::string("cannot open the events: ") + thrown.what());
}

result<void> publisher_socket::publish(bytes topic, bytes frame) {
  return check_size("topic", topic.size(), limits::event_topic_bytes_max)
      .and_then([&] { return check_size("frame", frame.size(), limits::event_bytes_max); })
      .and_then([&] {
        return loop_->publish({std::move(topic), std::move(frame)});
      });
}

const std::vector<std::string>& publisher_socket::endpoints() const noexcept { return loop_->endpoints(); }

}  // namespace ebb::bus

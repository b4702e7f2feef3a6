#include "tools/connection.hpp"
#include "bus/client_socket.hpp"
#include "bus/codec.hpp"
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <unistd.h>

namespace ebb::tools {
namespace {

constexpr std::chrono::milliseconds connect_timeout{2000};

class socket_connection final : public connection {
 public:
  explicit socket_connection(bus::client_socket socket) : socket_(std::move(socket)) {}

  result<void> send(const bus::request& asked) override { return socket_.send(bus::encode_request(asked)); }

  result<bus::reply> receive(std::chrono::milliseconds timeout) override {
    auto frame = socket_.receive(timeout);
    if (!frame) return fail(frame.error());
    return bus::decode_reply(*frame);
  }

 private:
  bus::client_socket socket_;
};

}  // namespace

result<std::unique_ptr<connection>> connect_to_daemon(const std::string& endpoint, const std::optional<curve_client_keys>& keys) {
  auto socket = bus::client_socket::connect(endpoint, connect_timeout, keys);
  if (!socket) return fail(socket.error());
  return std::make_unique<socket_connection>(std::move(*socket));
}

// Replies on their way from the engine's threads to the one that asks. Unbounded, since it holds only what was asked for.
class local_connection::inbox {
 public:
  void put(const bus::reply& reply) {
    {
      const std::lock_guard lock(mutex_);
      replies_.push_back(reply);
    }
    arrived_.notify_one();
  }

  result<bus::reply> take(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, timeout, [this] { return !replies_.empty(); })) {
      return fail(errc::timed_out, "no reply within " + std::to_string(timeout.count()) + " ms");
    }
    bus::reply first = std::move(replies_.front());
    replies_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<bus::reply> replies_;
};

local_connection::local_connection() : inbox_(std::make_unique<inbox>()) {}
local_connection::~local_connection() = default;

result<std::unique_ptr<local_connection>> local_connection::start(const engine_options& options) {
  std::unique_ptr<local_connection> opened(new local_connection);
  auto started = engine::start(options, [in = opened->inbox_.get()](const bus::client_id&, const bus::reply& reply, bool) { in->put(reply); });
  if (!started) return fail(started.error());
  opened->engine_ = std::move(*started);
  return opened;
}

result<void> local_connection::send(const bus::request& asked) {
  engine_->submit(bus::client_id{"local"}, asked);
  return {};
}

result<bus::reply> local_connection::receive(std::chrono::milliseconds timeout) { return inbox_->take(timeout); }

result<bus::reply> ask(connection& through, bus::command command, std::chrono::milliseconds timeout) {
  const bus::request asked{.id = fresh_id(), .text = false, .command = std::move(command)};
  if (auto sent = through.send(asked); !sent) return fail(sent.error());
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    auto reply = through.receive(std::max(left, std::chrono::milliseconds{0}));
    if (!reply) return reply;
    if (reply->id != asked.id || !reply->last()) continue;
    if (const auto* why = std::get_if<error>(&reply->body)) return fail(*why);
    return reply;
  }
}

bus::request_id fresh_id() {
  static std::atomic<std::uint64_t> count{0};
  return {std::to_string(getpid()) + "-" + std::to_string(++count)};
}

}  // namespace ebb::tools

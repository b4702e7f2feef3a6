// tests/bus/support/test_server.hpp: a router_socket that remembers what its handlers were told.
#pragma once
#include "bus/codec.hpp"
#include "bus/router_socket.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include <catch2/catch.hpp>
#include <chrono>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ebb::bus::test {

using namespace std::chrono_literals;

inline constexpr auto patience = 20s;  // far more than anything takes, for machines under load and sanitizers

struct happening {
  enum class kind { frame, gone } what;
  client_id who;
  bytes frame;
};

class test_server {
 public:
  using answerer = std::function<void(test_server&, const happening&)>;

  // Listens in a folder of its own, and at `more`. `answer` is called on the socket's thread for each frame.
  explicit test_server(answerer answer, std::vector<std::string> more = {}, const std::optional<curve_server_keys>& keys = {})
      : answer_(std::move(answer)) {
    more.insert(more.begin(), "ipc://" + (folder_ / "commands").string());
    auto opened = router_socket::open(more, keys);
    if (!opened) throw std::runtime_error(opened.error().text);
    socket_ = std::move(*opened);
    socket_->start({[this](const client_id& who, bytes frame) { on_frame(who, std::move(frame)); },
                    [this](const client_id& who) {
                      note({happening::kind::gone, who, {}});
                    },
                    [this] { return has_room_.load(); }});
  }

  ~test_server() { stop(); }

  static void echo(test_server& server, const happening& asked) {
    if (!server.socket().send(asked.who, asked.frame)) throw std::runtime_error("the backlog is full");
  }
  static void keep_silent(test_server&, const happening&) {}

  router_socket& socket() { return *socket_; }
  std::string address() const { return socket_->endpoints().front(); }
  void stop() { socket_->stop(); }
  void set_room(bool has_room) { has_room_ = has_room; }

  // Waits until `holds` is true of all that has happened, and says whether it ever was.
  bool wait_until(const std::function<bool(const std::vector<happening>&)>& holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return holds(happened_); });
  }

  bool wait_for_count(happening::kind what, std::size_t count) {
    return wait_until([=](const auto& all) {
      return std::count_if(all.begin(), all.end(), [&](const happening& each) { return each.what == what; }) ==
             static_cast<long>(count);
    });
  }

  std::vector<happening> happened() {
    const std::lock_guard lock(mutex_);
    return happened_;
  }

 private:
  void on_frame(const client_id& who, bytes frame) {
    const happening asked{happening::kind::frame, who, std::move(frame)};
    note(asked);
    answer_(*this, asked);
  }

  void note(happening what) {
    const std::lock_guard lock(mutex_);
    happened_.push_back(std::move(what));
    changed_.notify_all();
  }

  temporary_folder folder_;
  answerer answer_;
  std::atomic<bool> has_room_ = true;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<happening> happened_;
  std::unique_ptr<router_socket> socket_;
};

}  // namespace ebb::bus::test

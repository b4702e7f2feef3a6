#include "bus/http/server.hpp"
#include "bus/http/request_server.hpp"
#include "config/limits.hpp"
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace ebb::bus::http {

server::server(listener at, routes all, guard_rules rules)
    : url_(at.url()),
      routes_(std::move(all)),
      guard_(std::move(rules)),
      loop_(std::move(at.socket), {.wants_body = [this](const request_head& head) { return guard_.wants_body(head); }, .begin = [this](connection& client) { return workers_.begin(client); }}),
      workers_(limits::http_workers_max, [this] { return make_work(); }) {}

worker_pool::work server::make_work() const {
  using after = request_server::after;
  return [this, serves = std::make_shared<request_server>(routes_, guard_)](connection& client) {
    const after next = serves->serve(client);
    const auto then = next == after::keep ? connection_loop::after::keep : next == after::drain ? connection_loop::after::drain : connection_loop::after::close;
    loop_.give_back(client, then);
  };
}

void server::start() { loop_.start(); }

void server::stop() {
  if (std::exchange(stopped_, true)) return;
  loop_.close_doors();
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread cut([&] {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, limits::stop_linger, [&] { return done; })) loop_.cut_off();
  });
  workers_.stop();
  {
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  }
  cut.join();
  loop_.stop();
}

}  // namespace ebb::bus::http

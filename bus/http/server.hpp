// bus/http/server.hpp: connections, threads and routes put together: HTTP at one address, without a word of what is served.
#pragma once
#include "bus/http/connection_loop.hpp"
#include "bus/http/guard.hpp"
#include "bus/http/listener.hpp"
#include "bus/http/routes.hpp"
#include "bus/http/worker_pool.hpp"
#include <string>

namespace ebb::bus::http {

class server {
 public:
  // Serves from start() on; the routes must not change after it.
  server(listener at, routes all, guard_rules rules);
  ~server() { stop(); }
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  void start();
  // Requests under way see their clients as gone, and have limits::stop_linger to end; then their connections are cut.
  void stop();

  const std::string& url() const noexcept { return url_; }
  std::size_t connection_count() const { return loop_.connection_count(); }
  std::size_t worker_count() const { return workers_.thread_count(); }

 private:
  worker_pool::work make_work() const;

  const std::string url_;
  const routes routes_;
  const guard guard_;
  mutable connection_loop loop_;
  worker_pool workers_;
  bool stopped_ = false;
};

}  // namespace ebb::bus::http

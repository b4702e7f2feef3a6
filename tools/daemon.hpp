// tools/daemon.hpp: an engine behind a socket.
#pragma once
#include "bus/router_socket.hpp"
#include "config/settings.hpp"
#include "tools/engine.hpp"
#include <atomic>
#include <memory>

namespace ebb::tools {

class daemon {
 public:
  // Binds the endpoints first, so that a second daemon learns at once that there is one, then loads the model. Requests that come
  // meanwhile are answered `not_loaded`, and `status` with "loading". Errors: those of router_socket::open,
  // bus::load_server_keys and engine::start.
  static result<std::unique_ptr<daemon>> start(const engine_options& options);

  // Answers what is open with `cancelled`, then closes the socket.
  ~daemon();
  daemon(const daemon&) = delete;
  daemon& operator=(const daemon&) = delete;

  const tools::engine& engine() const noexcept { return *engine_; }
  const std::vector<std::string>& endpoints() const noexcept { return socket_->endpoints(); }

 private:
  daemon() = default;
  void take_frame(const bus::client_id& from, bus::bytes_view frame);
  void client_left(const bus::client_id& who);
  void send(const bus::client_id& to, const bus::reply& what, bool text);

  bus::status_report without_model() const;

  std::string model_;
  std::unique_ptr<bus::router_socket> socket_;
  std::unique_ptr<tools::engine> engine_;
  std::atomic<bool> stopping_{false};
  std::atomic<tools::engine*> ready_{nullptr};  // the engine once it takes requests; what the socket's thread reads
};

}  // namespace ebb::tools

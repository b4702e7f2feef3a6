// tools/connection.hpp: a way to ask an engine, wherever it runs: in a daemon behind a socket, or in this process.
#pragma once
#include "bus/messages.hpp"
#include "config/curve_keys.hpp"
#include "config/result.hpp"
#include "tools/engine.hpp"
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace ebb::tools {

class connection {
 public:
  virtual ~connection() = default;

  // Errors: those of bus::client_socket::send; never of an engine in this process.
  virtual result<void> send(const bus::request& asked) = 0;

  // The next reply to any request. Errors: timed_out; refused (the daemon has gone).
  virtual result<bus::reply> receive(std::chrono::milliseconds timeout) = 0;
};

// Keys count on tcp only. Errors: those of bus::client_socket::connect.
result<std::unique_ptr<connection>> connect_to_daemon(const std::string& endpoint, const std::optional<curve_client_keys>& keys = {});

// An engine in this process, and the connection to it.
class local_connection final : public connection {
 public:
  // Errors: those of engine::start.
  static result<std::unique_ptr<local_connection>> start(const engine_options& options);
  ~local_connection() override;

  result<void> send(const bus::request& asked) override;
  result<bus::reply> receive(std::chrono::milliseconds timeout) override;
  const tools::engine& engine() const noexcept { return *engine_; }

 private:
  class inbox;
  local_connection();
  std::unique_ptr<inbox> inbox_;           // outlives the engine, whose threads fill it
  std::unique_ptr<tools::engine> engine_;
};

// Sends a command under a fresh id and waits for its last reply; others are dropped. An error reply is the error.
result<bus::reply> ask(connection& through, bus::command command, std::chrono::milliseconds timeout);

// Ids for requests of this process: "PID-1", "PID-2", ...
bus::request_id fresh_id();

}  // namespace ebb::tools

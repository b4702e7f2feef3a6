// tools/live_target.hpp: a daemon as what a journal is fed to: a connection for each client of the recording, in real time.
#pragma once
#include "bus/client_socket.hpp"
#include "config/curve_keys.hpp"
#include "tools/replay_target.hpp"
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ebb::tools {

class live_target final : public replay_target {
 public:
  live_target(std::string endpoint, std::optional<curve_client_keys> keys, frame_sink sink)
      : endpoint_(std::move(endpoint)), keys_(std::move(keys)), sink_(std::move(sink)) {}

  // Of a lease its `pid` is left out.
  result<void> take(const bus::client_id& from, bus::bytes_view frame) override;
  void client_left(const bus::client_id& who) override { sockets_.erase(who); }
  void move_to(std::chrono::nanoseconds) override {}

  // Waits for the next reply to anybody. False after limits::replay_silence without one.
  bool run_once() override;
  void stop() override {}
  bool repeats_exactly() const override { return false; }

 private:
  std::string endpoint_;
  std::optional<curve_client_keys> keys_;
  frame_sink sink_;
  std::map<bus::client_id, bus::client_socket> sockets_;
};

}  // namespace ebb::tools

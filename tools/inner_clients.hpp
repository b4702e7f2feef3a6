// tools/inner_clients.hpp: clients in the daemon's own process. What they ask and are answered takes the way of all frames, so that the
// journal has it and the codec checks it.
#pragma once
#include "bus/bytes.hpp"
#include "bus/command_port.hpp"
#include <memory>
#include <mutex>
#include <unordered_map>

namespace ebb::tools {

class inner_clients final : public bus::command_port {
 public:
  struct handlers {
    std::function<void(const bus::client_id& from, bus::bytes_view frame)> on_frame;
    std::function<void(const bus::client_id& who)> on_gone;
  };
  explicit inner_clients(handlers handle) : handle_(std::move(handle)) {}

  bus::client_id join(std::function<void(const bus::reply&)> take) override;
  void submit(const bus::client_id& who, const bus::request& asked) override;
  void leave(const bus::client_id& who) override;
  std::uint64_t listen(std::function<void(const bus::event&)> take) override;
  void unlisten(std::uint64_t number) override;

  // Whether such an id is only given here. ZeroMQ's own have 5 bytes, and a client that chooses one like these is to be refused.
  static bool is_inner(const bus::client_id& who);

  // --- for the daemon
  void deliver(const bus::client_id& to, const bus::reply& what);  // dropped if the client has left
  void tell(const bus::event& what);

 private:
  struct client {
    std::mutex mutex;
    std::function<void(const bus::reply&)> take;  // empty when it has left
  };

  const handlers handle_;
  std::mutex mutex_;
  std::unordered_map<bus::client_id, std::shared_ptr<client>> clients_;
  std::uint64_t joined_ = 0;

  std::mutex listeners_mutex_;
  std::unordered_map<std::uint64_t, std::function<void(const bus::event&)>> listeners_;
  std::uint64_t listened_ = 0;
};

}  // namespace ebb::tools

// bus/connection_monitor.hpp: what ZeroMQ says about the connections of one socket.
#pragma once
#include <cstdint>
#include <optional>
#include <zmq.hpp>

namespace ebb::bus {

class connection_monitor {
 public:
  struct event {
    std::uint16_t what;  // ZMQ_EVENT_...
    int value;           // for accepted and disconnected connections: their file descriptor
  };

  // Reports those of ZMQ_EVENT_... that are in `events`. Throws zmq::error_t. The socket must outlive it; both belong to one
  // thread.
  connection_monitor(zmq::context_t& context, zmq::socket_t& watched, int events);
  ~connection_monitor();
  connection_monitor(const connection_monitor&) = delete;
  connection_monitor& operator=(const connection_monitor&) = delete;

  // The oldest event not yet taken; none if there is none. Never waits.
  std::optional<event> next();

  // To poll for reading.
  void* handle() noexcept { return events_.handle(); }

 private:
  zmq::socket_t& watched_;
  zmq::socket_t events_;
};

}  // namespace ebb::bus

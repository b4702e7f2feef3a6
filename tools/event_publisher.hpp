// tools/event_publisher.hpp: numbers what happens, and publishes it in that order.
#pragma once
#include "bus/events.hpp"
#include "bus/messages.hpp"
#include "bus/publisher_socket.hpp"
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace ebb::tools {

class event_publisher {
 public:
  // Without a socket events are numbered, and go only to those in this process: `also` is told each in order, and must not block.
  event_publisher(std::unique_ptr<bus::publisher_socket> socket, std::function<void(const bus::event&)> also)
      : socket_(std::move(socket)), also_(std::move(also)) {}

  // From any thread; never blocks.
  void tell(bus::event_body what);

  // What `subscribe` is answered with.
  bus::subscribed position() const;

 private:
  std::unique_ptr<bus::publisher_socket> socket_;
  std::function<void(const bus::event&)> also_;
  mutable std::mutex mutex_;     // the number and the place in the order are one
  std::uint64_t sequence_ = 0;
};

}  // namespace ebb::tools

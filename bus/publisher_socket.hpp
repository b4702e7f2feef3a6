// bus/publisher_socket.hpp: the daemon's end of the events: one thread, one PUB, any number of subscribers.
//
// A message has two parts: [topic, frame]. A subscriber that reads too slowly loses frames beyond limits::events_high_water, and
// nobody else notices.
//
// The socket has a thread of its own rather than a mutex round it: the one who publishes is often a card between two windows, and
// pays for a push into a queue, not for a send to every subscriber; and new subscribers (and their keys) are looked at when they
// come, not when something happens to be published.
#pragma once
#include "bus/bytes.hpp"
#include "config/curve_keys.hpp"
#include "config/result.hpp"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ebb::bus {

class publisher_socket {
 public:
  // Binds all of them or none, with the guards and errors of bus/binder.hpp, and begins.
  static result<std::unique_ptr<publisher_socket>> open(const std::vector<std::string>& endpoints,
                                                        const std::optional<curve_server_keys>& keys = {});

  // Ends the thread and removes the socket files. What was published just before may be lost: what must not be lost at the end is a
  // reply.
  ~publisher_socket();
  publisher_socket(const publisher_socket&) = delete;
  publisher_socket& operator=(const publisher_socket&) = delete;

  // From any thread; never blocks. Subscribers get the events of one thread in the order of its calls.
  // Errors, with which the event is dropped: too_large (limits::event_bytes_max, limits::event_topic_bytes_max), busy (the socket's
  // thread got no time to send what was published before).
  result<void> publish(bytes topic, bytes frame);

  // As bound, with the port that was picked.
  const std::vector<std::string>& endpoints() const noexcept;

 private:
  class loop;
  explicit publisher_socket(std::unique_ptr<loop> bound);
  std::unique_ptr<loop> loop_;
};

}  // namespace ebb::bus

// bus/subscriber_socket.hpp: a client's end of the events: a SUB that never waits without a limit. For one thread.
//
// Events that are published in the first moments after connect() may be missed: the daemon hears of a subscription only after
// the handshake. Who wants the whole picture asks for it (`status`, `cards`) once the events are under way.
#pragma once
#include "bus/bytes.hpp"
#include "config/curve_keys.hpp"
#include "config/result.hpp"
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ebb::bus {

class daemon_link;

struct published {
  bytes topic;
  bytes frame;
};

class subscriber_socket {
 public:
  // Of the topics that begin with one of `topics`; none: all. Keys count on tcp only. Errors: those of daemon_link::connect;
  // too_large (a topic over limits::event_topic_bytes_max).
  static result<subscriber_socket> connect(const std::string& address, std::chrono::milliseconds timeout,
                                           const std::optional<curve_client_keys>& keys = {}, const std::vector<std::string>& topics = {});

  ~subscriber_socket();
  subscriber_socket(subscriber_socket&&) noexcept;
  subscriber_socket& operator=(subscriber_socket&&) noexcept;

  // The next event. Errors: timed_out, refused (the daemon has gone; said at once, not after the timeout), malformed (what came is
  // no event: something else than a daemon answers there).
  result<published> receive(std::chrono::milliseconds timeout);

 private:
  explicit subscriber_socket(std::unique_ptr<daemon_link> connected);
  std::unique_ptr<daemon_link> link_;
};

}  // namespace ebb::bus

#include "tools/event_publisher.hpp"
#include "tools/wall_clock.hpp"

namespace ebb::tools {

void event_publisher::tell(bus::event_body what) {
  const bus::bytes_view topic = bus::as_bytes(bus::name_of_event(what));
  const std::lock_guard lock(mutex_);
  const bus::event numbered{++sequence_, unix_ms_now(), std::move(what)};
  // One that cannot be sent leaves a gap in the numbers, which is how a subscriber learns of it.
  if (socket_) static_cast<void>(socket_->publish({topic.begin(), topic.end()}, bus::encode_event(numbered)));
  also_(numbered);
}

bus::subscribed event_publisher::position() const {
  const std::lock_guard lock(mutex_);
  return {socket_ ? socket_->endpoints() : std::vector<std::string>{}, sequence_};
}

}  // namespace ebb::tools

#include "bus/outbox.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include <string>
#include <utility>

namespace ebb::bus {

result<void> outbox::push(const client_id& to, bytes frame) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    if (unsettled_total_ >= limits::backlog_total_max) {
      return fail(errc::busy, "all clients together have " + std::to_string(unsettled_total_) + " replies unsent; try again");
    }
    std::size_t& unsettled = unsettled_[to];
    if (unsettled >= limits::backlog_max) {
      return fail(errc::busy, "this client has " + std::to_string(unsettled) + " replies unsent; it must read them first");
    }
    ++unsettled;
    ++unsettled_total_;
    was_empty = queued_.empty();
    queued_.push_back({to, std::move(frame)});
  }
  if (was_empty) wake();
  return {};
}

std::vector<outbox::item> outbox::take() {
  // The event is read before the queue: a push in between wakes once too often, never once too seldom.
  event_.take();
  const std::lock_guard lock(mutex_);
  return std::exchange(queued_, {});
}

void outbox::settle(const client_id& to, std::size_t count) {
  if (count == 0) return;
  const std::lock_guard lock(mutex_);
  const auto entry = unsettled_.find(to);
  EBB_ASSERT(entry != unsettled_.end());
  EBB_ASSERT(entry->second >= count);
  entry->second -= count;
  unsettled_total_ -= count;
  if (entry->second == 0) unsettled_.erase(entry);
}

}  // namespace ebb::bus

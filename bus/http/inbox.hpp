// bus/http/inbox.hpp: what comes for one request, replies or events, from the daemon's threads to the one that works for it.
//
// Bounded: who puts never waits, and one that is full is closed, since its reader is too slow for what it asked for.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

namespace ebb::bus::http {

template <class Item>
class inbox {
 public:
  explicit inbox(std::size_t items_max) : items_max_(items_max) {}

  void put(Item item) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (items_.size() >= items_max_) closed_ = overrun_ = true;
    else items_.push_back(std::move(item));
    changed_.notify_one();
  }

  // No more is taken in or given out.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  // Waits for the next; none when the time is over or it is closed.
  std::optional<Item> take(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [this] { return closed_ || !items_.empty(); });
    if (closed_ || items_.empty()) return std::nullopt;
    std::optional<Item> first(std::move(items_.front()));
    items_.pop_front();
    return first;
  }

  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  bool overrun() const {
    const std::lock_guard lock(mutex_);
    return overrun_;
  }

 private:
  const std::size_t items_max_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool closed_ = false;
  bool overrun_ = false;  // and that is why
};

}  // namespace ebb::bus::http

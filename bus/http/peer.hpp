// bus/http/peer.hpp: whether the client of a request is still there: from the thread that sees its connection end to the one that
// works for it.
#pragma once
#include <functional>
#include <mutex>
#include <utility>

namespace ebb::bus::http {

class peer {
 public:
  // The connection has ended, or the service stops.
  void leave() {
    const std::lock_guard lock(mutex_);
    left_ = true;
    if (wake_) wake_();
  }

  bool left() const {
    const std::lock_guard lock(mutex_);
    return left_;
  }

  // `wake` is called by leave(), or at once if it was; empty: nothing is. It must not call back. It is not called any more when another call of
  // this returns.
  void when_left(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (left_ && wake_) wake_();
  }

 private:
  mutable std::mutex mutex_;
  std::function<void()> wake_;
  bool left_ = false;
};

}  // namespace ebb::bus::http

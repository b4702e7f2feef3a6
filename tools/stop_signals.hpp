// tools/stop_signals.hpp: SIGTERM and SIGINT as a request to stop, whenever they come.
//
// Make it before any other thread: both are blocked in this one and in all that it starts, and only the thread in here takes them.
#pragma once
#include <atomic>
#include <signal.h>
#include <stop_token>
#include <thread>

namespace ebb::tools {

class stop_signals {
 public:
  stop_signals();
  ~stop_signals();
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;

  std::stop_token token() const noexcept { return stop_.get_token(); }

  // Blocks until one has come; its name.
  const char* wait();

 private:
  sigset_t signals_{};
  std::stop_source stop_;
  std::atomic<int> came_ = 0;
  std::thread taker_;
};

}  // namespace ebb::tools

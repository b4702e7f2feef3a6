#include "tools/stop_signals.hpp"

namespace ebb::tools {

stop_signals::stop_signals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  taker_ = std::thread([this] {
    int signal = 0;
    sigwait(&signals_, &signal);
    stop_.request_stop();
    came_ = signal;
    came_.notify_all();
  });
}

stop_signals::~stop_signals() {
  if (came_ == 0) pthread_kill(taker_.native_handle(), SIGTERM);  // it waits for one, and there is nothing else to wake it
  taker_.join();
}

const char* stop_signals::wait() {
  came_.wait(0);
  return came_ == SIGTERM ? "SIGTERM" : "SIGINT";
}

}  // namespace ebb::tools

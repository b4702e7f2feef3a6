// bus/thread_signals.hpp: keeps signals from a thread: they are the main thread's, and would only interrupt the waits of another.
#pragma once
#include <csignal>
#include <pthread.h>

namespace ebb::bus {

inline void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace ebb::bus

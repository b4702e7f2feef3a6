// bus/block_signals.hpp: keeps signals away from a socket's thread: they are the main thread's, and would only interrupt its waits.
#pragma once
#include <pthread.h>
#include <signal.h>

namespace ebb::bus {

// For the calling thread.
inline void block_signals() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace ebb::bus

// kernels/cuda/bounded_wait.hpp: a wait for a GPU that always ends: asks again and again, at once for limits::gpu_spin, then with naps.
//
// The calls of CUDA that wait have no end of their own, and a GPU that hangs would take the thread, and with it the daemon's stop.
#pragma once
#include "config/limits.hpp"
#include <chrono>
#include <thread>

namespace ebb::kernels::cuda {

// What `query` says first that is not `busy`; `busy`, if it still said so when `at_most` had passed. It is asked at least once.
template <class Outcome, class Query>
Outcome wait_while(Outcome busy, Query query, std::chrono::nanoseconds at_most) {
  const auto began = std::chrono::steady_clock::now();
  for (;;) {
    const Outcome said = query();
    if (said != busy) return said;
    const auto waited = std::chrono::steady_clock::now() - began;
    if (waited >= at_most) return busy;
    if (waited > limits::gpu_spin) std::this_thread::sleep_for(limits::gpu_nap);
  }
}

}  // namespace ebb::kernels::cuda

// kernels/cpu/worker_pool.hpp: the threads that share the rows of a product.
//
// A region is a count of items cut into chunks; threads claim chunks until none is left, and the caller works too. It returns when
// every chunk is done and waits for no thread that claimed none, so a worker that sleeps or was preempted never holds a token up.
// Which thread computes which chunk never shows in a result: rows are independent.
//
// Idle workers spin for a moment, since the next region of a window comes within microseconds, and then sleep.
#pragma once
#include "config/assert.hpp"
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace ebb::kernels::cpu {

class worker_pool {
 public:
  // n_threads counts the caller, so 1 starts no thread. Pre: n_threads >= 1 (asserts).
  explicit worker_pool(unsigned n_threads);
  ~worker_pool();
  worker_pool(const worker_pool&) = delete;
  worker_pool& operator=(const worker_pool&) = delete;

  unsigned n_threads() const noexcept { return static_cast<unsigned>(threads_.size()) + 1; }

  // Calls body(begin, end, thread) for disjoint ranges that cover [0, n_items), about two a thread; each begins at a multiple of
  // `unit`. thread is in [0, n_threads), 0 the caller, and no two calls share one at a time.
  // Several callers take turns. The body must not throw and must not call the pool.
  template <class Body>
  void for_ranges(std::uint32_t n_items, std::uint32_t unit, Body&& body) {
    static_assert(std::is_invocable_v<Body&, std::uint32_t, std::uint32_t, unsigned>);
    if (n_items == 0) return;
    region work;
    work.context = const_cast<void*>(static_cast<const void*>(&body));
    work.call = [](void* context, std::uint32_t begin, std::uint32_t end, unsigned thread) {
      (*static_cast<std::remove_reference_t<Body>*>(context))(begin, end, thread);
    };
    work.n_items = n_items;
    work.grain = unit;
    run(work);
  }

 private:
  struct region {
    void* context;
    void (*call)(void*, std::uint32_t, std::uint32_t, unsigned);
    std::uint32_t n_items;
    std::uint32_t grain;  // items of a chunk
  };

  void run(region work);
  void work_on_chunks(unsigned thread);
  void worker_loop(unsigned thread);

  // region_ is written by the caller while no chunk is open and read only by a thread that has claimed a chunk of it.
  region region_{};
  std::mutex turn_;
  alignas(64) std::atomic<std::uint64_t> cursor_{0};  // epoch << 32 | next chunk << 16 | chunks
  alignas(64) std::atomic<std::uint32_t> done_{0};    // chunks finished in this region
  alignas(64) std::atomic<std::uint32_t> signal_{0};  // changes with each region and at the end; what sleepers wait on
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace ebb::kernels::cpu

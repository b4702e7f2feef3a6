#include "kernels/cpu/worker_pool.hpp"
#include <algorithm>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ebb::kernels::cpu {
namespace {

constexpr std::uint32_t chunks_max = 0xffff;       // what 16 bits of the cursor hold
constexpr std::uint32_t chunks_per_thread = 2;     // more would cut the streams that the memory's prefetchers follow; one would make
                                                   // everybody wait for the slowest thread
constexpr unsigned spins_before_sleep = 4000;      // about 100 us, longer than the serial parts between two regions of a window
constexpr unsigned spins_before_yield = 20000;     // longer than a chunk takes: whoever yields on a busy machine loses milliseconds

constexpr std::uint64_t make_cursor(std::uint32_t epoch, std::uint32_t chunks) { return std::uint64_t{epoch} << 32 | chunks; }
constexpr std::uint32_t epoch_of(std::uint64_t cursor) { return static_cast<std::uint32_t>(cursor >> 32); }
constexpr std::uint32_t next_of(std::uint64_t cursor) { return static_cast<std::uint32_t>(cursor >> 16) & 0xffff; }
constexpr std::uint32_t chunks_of(std::uint64_t cursor) { return static_cast<std::uint32_t>(cursor) & 0xffff; }

void pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

worker_pool::worker_pool(unsigned n_threads) {
  EBB_ASSERT(n_threads >= 1);
  threads_.reserve(n_threads - 1);
  for (unsigned thread = 1; thread < n_threads; ++thread) threads_.emplace_back([this, thread] { worker_loop(thread); });
}

worker_pool::~worker_pool() {
  stopping_.store(true, std::memory_order_release);
  signal_.fetch_add(1, std::memory_order_release);
  signal_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void worker_pool::run(region work) {
  const std::uint32_t unit = std::max(work.grain, 1u);
  const std::uint32_t units = (work.n_items + unit - 1) / unit;
  const std::uint32_t chunks_wanted = std::min(chunks_max, n_threads() * chunks_per_thread);
  const std::uint32_t grain = (units + chunks_wanted - 1) / chunks_wanted * unit;
  const std::uint32_t chunks = (work.n_items + grain - 1) / grain;
  const std::lock_guard turn(turn_);
  if (chunks == 1 || threads_.empty()) {
    work.call(work.context, 0, work.n_items, 0);
    return;
  }
  work.grain = grain;
  region_ = work;
  done_.store(0, std::memory_order_relaxed);
  const std::uint32_t epoch = epoch_of(cursor_.load(std::memory_order_relaxed)) + 1;
  cursor_.store(make_cursor(epoch, chunks), std::memory_order_release);
  signal_.fetch_add(1, std::memory_order_release);
  signal_.notify_all();
  work_on_chunks(0);
  for (unsigned spins = 0; done_.load(std::memory_order_acquire) != chunks; ++spins) {
    if (spins < spins_before_yield) pause();
    else std::this_thread::yield();
  }
}

void worker_pool::work_on_chunks(unsigned thread) {
  std::uint64_t cursor = cursor_.load(std::memory_order_acquire);
  while (next_of(cursor) < chunks_of(cursor)) {
    if (!cursor_.compare_exchange_weak(cursor, cursor + (1u << 16), std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    const std::uint32_t begin = next_of(cursor) * region_.grain;
    const std::uint32_t end = std::min(begin + region_.grain, region_.n_items);
    EBB_DASSERT(begin < end);
    region_.call(region_.context, begin, end, thread);
    done_.fetch_add(1, std::memory_order_release);
    cursor = cursor_.load(std::memory_order_acquire);
  }
}

void worker_pool::worker_loop(unsigned thread) {
  std::uint32_t seen = signal_.load(std::memory_order_acquire);
  while (!stopping_.load(std::memory_order_acquire)) {
    work_on_chunks(thread);
    unsigned spins = 0;
    while (signal_.load(std::memory_order_acquire) == seen) {
      if (++spins < spins_before_sleep) pause();
      else signal_.wait(seen, std::memory_order_acquire);
    }
    seen = signal_.load(std::memory_order_acquire);
  }
}

}  // namespace ebb::kernels::cpu

#include "kernels/cpu/worker_pool.hpp"
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

using ebb::kernels::cpu::worker_pool;

TEST_CASE("every item of a region is visited exactly once") {
  for (unsigned n_threads : {1u, 2u, 3u, 5u}) {
    worker_pool pool(n_threads);
    for (std::uint32_t n_items : {0u, 1u, 2u, 63u, 64u, 65u, 1000u, 200000u}) {
      for (std::uint32_t grain : {0u, 1u, 7u, 64u, 100000u}) {
        std::vector<std::atomic<int>> visits(n_items);
        pool.for_ranges(n_items, grain, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
          for (std::uint32_t i = begin; i < end; ++i) visits[i].fetch_add(1, std::memory_order_relaxed);
        });
        const bool all_once = std::all_of(visits.begin(), visits.end(), [](const auto& n) { return n.load() == 1; });
        REQUIRE(all_once);
      }
    }
  }
}

TEST_CASE("a thread number is never used by two calls at a time and stays below the pool's size") {
  worker_pool pool(4);
  std::vector<std::atomic<int>> inside(pool.n_threads());
  std::atomic<bool> shared{false};
  for (int round = 0; round < 200; ++round) {
    pool.for_ranges(64, 1, [&](std::uint32_t, std::uint32_t, unsigned thread) {
      if (thread >= inside.size() || inside[thread].fetch_add(1) != 0) shared = true;
      else inside[thread].fetch_sub(1);
    });
  }
  REQUIRE_FALSE(shared);
}

TEST_CASE("what a region wrote is seen by the caller after it, region after region") {
  worker_pool pool(3);
  std::vector<int> values(257, 0);
  for (int round = 1; round <= 5000; ++round) {
    pool.for_ranges(257, 16, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
      for (std::uint32_t i = begin; i < end; ++i) ++values[i];
    });
    for (int value : values) {
      if (value != round) FAIL("an item was missed in round " << round);
    }
  }
  REQUIRE(values[256] == 5000);
}

TEST_CASE("several callers take turns on one pool") {
  worker_pool pool(2);
  std::vector<std::uint64_t> sums(3, 0);
  std::vector<std::thread> callers;
  for (std::size_t caller = 0; caller < sums.size(); ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<std::uint64_t> sum{0};
        pool.for_ranges(100, 9, [&](std::uint32_t begin, std::uint32_t end, unsigned) { sum += end - begin; });
        sums[caller] += sum;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  REQUIRE(sums == std::vector<std::uint64_t>{50000, 50000, 50000});
}

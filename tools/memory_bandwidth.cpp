#include "tools/memory_bandwidth.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace ebb::tools {
namespace {

constexpr std::size_t buffer_bytes = 512u << 20;
constexpr int passes = 5;

// Eight sums, so that the adds never hold the loads up.
std::uint64_t sum_of(const std::uint64_t* values, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += values[i + lane];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all += sum;
  return all;
}

}  // namespace

double read_bandwidth(unsigned n_threads) {
  const std::vector<std::uint64_t> buffer(buffer_bytes / sizeof(std::uint64_t), 1);
  kernels::cpu::worker_pool pool(n_threads);
  constexpr std::uint32_t block = 1u << 16;  // 512 KiB
  const auto blocks = static_cast<std::uint32_t>(buffer.size() / block);
  std::vector<std::uint64_t> sums(blocks);
  double best = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const auto began = std::chrono::steady_clock::now();
    pool.for_ranges(blocks, 1, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
      for (std::uint32_t i = begin; i < end; ++i) sums[i] += sum_of(&buffer[std::size_t{i} * block], block);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    best = std::max(best, static_cast<double>(buffer_bytes) / seconds);
  }
  // Every value is 1, so a wrong sum means that the loop was not run as written.
  return sums.front() == std::uint64_t{block} * passes ? best : 0;
}

}  // namespace ebb::tools

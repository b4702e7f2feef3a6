#include "kernels/cpu/shared_matmul.hpp"
#include <algorithm>

namespace ebb::kernels::cpu {
namespace {

// The fewest rows of weights that a thread claims at once: fewer would not pay for packing the activations.
constexpr std::uint32_t weight_rows_per_claim = 32;

}  // namespace

void multiply(const ops& by, worker_pool& pool, std::span<const matmul_job> jobs) {
  std::uint32_t n_rows = 0;
  for (const auto& job : jobs) n_rows += job.row_end;
  pool.for_ranges(n_rows, weight_rows_per_claim, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    std::uint32_t first = 0;  // where this job's rows begin when all are laid end to end
    for (matmul_job job : jobs) {
      const std::uint32_t last = first + job.row_end;
      if (begin < last && end > first) {
        job.row_begin = std::max(begin, first) - first;
        job.row_end = std::min(end, last) - first;
        by.matmul(job);
      }
      first = last;
    }
  });
}

}  // namespace ebb::kernels::cpu

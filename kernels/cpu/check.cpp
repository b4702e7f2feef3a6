#include "config/assert.hpp"
#include "kernels/cpu/implementations.hpp"

namespace ebb::kernels::cpu {
namespace {

bool reads_floats(format type) noexcept { return type == format::f32 || type == format::f16 || type == format::bf16; }

}  // namespace

void check(const matmul_job& job) noexcept {
  EBB_ASSERT(info(job.w.type).has_kernels);
  EBB_ASSERT(job.w.n_cols > 0);
  EBB_ASSERT(job.w.n_cols % info(job.w.type).values_per_block == 0);
  EBB_ASSERT(job.x.n_cols == job.w.n_cols);
  EBB_ASSERT(job.row_begin <= job.row_end);
  EBB_ASSERT(job.row_end <= job.w.n_rows);
  if (job.n == 0 || job.row_begin == job.row_end) return;
  EBB_ASSERT(job.w.data != nullptr);
  EBB_ASSERT(job.y != nullptr);
  if (reads_floats(job.w.type)) {
    EBB_ASSERT(job.x.x != nullptr);
  } else {
    for (std::uint32_t p = 0; p < job.x.n_parts(); ++p) {
      EBB_ASSERT(job.x.part[p].q != nullptr);
      EBB_ASSERT(job.x.part[p].d != nullptr);
      EBB_ASSERT(job.x.part[p].sum != nullptr);
    }
  }
}

}  // namespace ebb::kernels::cpu

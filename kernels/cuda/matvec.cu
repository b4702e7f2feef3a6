#include "config/assert.hpp"
#include "kernels/cuda/matvec.cuh"
#include "kernels/cuda/matvec.hpp"

namespace ebb::kernels::cuda {
namespace {

constexpr unsigned rows_per_block = 16;  // of weights; 128 threads

template <format Type, unsigned N>
__global__ void matvec_kernel(matvec_job job, activation_buffer x, std::uint32_t n) {
  const std::uint32_t r = blockIdx.x * rows_per_block + threadIdx.x / 8;
  const unsigned l = threadIdx.x % 8;
  const bool exists = r < job.w.n_rows;
  float sums[N] = {};
  if (exists) lanes<Type, N>(job.w.data + std::size_t{r} * row_bytes<Type>(x.n_cols), l, x, 0, n, sums);
#pragma unroll
  for (unsigned i = 0; i < N; ++i) {
    if (i >= n) break;
    const float y = lane_sum(sums[i]);
    if (!exists || l != 0) continue;
    float* to = job.y + std::size_t{i} * job.w.n_rows + r;
    *to = job.add ? __fadd_rn(*to, y) : y;
  }
}

template <format Type>
void launch(const matvec_job& job, const activation_buffer& x, std::uint32_t n, cudaStream_t stream) {
  const unsigned blocks = (job.w.n_rows + rows_per_block - 1) / rows_per_block;
  if (n == 1) matvec_kernel<Type, 1><<<blocks, rows_per_block * 8, 0, stream>>>(job, x, n);
  else if (n == 2) matvec_kernel<Type, 2><<<blocks, rows_per_block * 8, 0, stream>>>(job, x, n);
  else if (n <= 4) matvec_kernel<Type, 4><<<blocks, rows_per_block * 8, 0, stream>>>(job, x, n);
  else matvec_kernel<Type, 8><<<blocks, rows_per_block * 8, 0, stream>>>(job, x, n);
}

}  // namespace

void matvec(const matvec_job* jobs, unsigned n_jobs, const activation_buffer& x, std::uint32_t n, cudaStream_t stream) {
  EBB_ASSERT(n >= 1);
  EBB_ASSERT(n <= matvec_rows_max);
  EBB_ASSERT(n_jobs <= matvec_jobs_max);
  for (unsigned job = 0; job < n_jobs; ++job) {
    EBB_ASSERT(jobs[job].w.n_cols == x.n_cols);
    with_format(jobs[job].w.type, [&]<format Type>() { launch<Type>(jobs[job], x, n, stream); });
  }
}

}  // namespace ebb::kernels::cuda

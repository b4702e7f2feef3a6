#include "config/assert.hpp"
#include "kernels/cuda/float_matmul.cuh"
#include "kernels/cuda/matvec.cuh"
#include "kernels/cuda/matvec.hpp"

namespace ebb::kernels::cuda {
namespace {

constexpr unsigned rows_per_block = 8;  // of weights, a warp each

struct matvec_batch {
  matvec_job job[matvec_jobs_max];
  unsigned n_jobs;
};

template <format Type, unsigned N>
__global__ void __launch_bounds__(rows_per_block * 32) matvec_kernel(matvec_batch jobs, activation_buffer x, std::uint32_t n) {
  std::uint32_t r = blockIdx.x * rows_per_block + threadIdx.x / 32;
  matvec_job job = jobs.job[0];
#pragma unroll
  for (unsigned next = 1; next < matvec_jobs_max; ++next) {
    if (next >= jobs.n_jobs || r < job.w.n_rows) break;
    r -= job.w.n_rows;
    job = jobs.job[next];
  }
  if (r >= job.w.n_rows) return;
  float y[N];
  multiply_row<Type, N>(job.w.data + std::size_t{r} * row_bytes<Type>(x.n_cols), x, 0, n, y);
  if (threadIdx.x % 32 != first_holder) return;
#pragma unroll
  for (unsigned i = 0; i < N; ++i) {
    if (i >= n) break;
    float* to = job.y + std::size_t{i} * job.w.n_rows + r;
    *to = job.add ? __fadd_rn(*to, y[i]) : y[i];
  }
}

template <format Type>
void launch(const matvec_batch& jobs, const activation_buffer& x, std::uint32_t n, cudaStream_t stream) {
  std::uint32_t n_rows = 0;
  for (unsigned job = 0; job < jobs.n_jobs; ++job) n_rows += jobs.job[job].w.n_rows;
  const unsigned blocks = (n_rows + rows_per_block - 1) / rows_per_block, threads = rows_per_block * 32;
  if (n == 1) matvec_kernel<Type, 1><<<blocks, threads, 0, stream>>>(jobs, x, n);
  else if (n == 2) matvec_kernel<Type, 2><<<blocks, threads, 0, stream>>>(jobs, x, n);
  else if (n <= 4) matvec_kernel<Type, 4><<<blocks, threads, 0, stream>>>(jobs, x, n);
  else matvec_kernel<Type, 8><<<blocks, threads, 0, stream>>>(jobs, x, n);
}

}  // namespace

void matvec(const matvec_job* jobs, unsigned n_jobs, const activation_buffer& x, std::uint32_t n, cudaStream_t stream) {
  EBB_ASSERT(n >= 1);
  EBB_ASSERT(n <= matvec_rows_max);
  EBB_ASSERT(n_jobs <= matvec_jobs_max);
  for (unsigned first = 0; first < n_jobs;) {
    const format type = jobs[first].w.type;
    matvec_batch same{{}, 0};  // neighbours of one format
    for (; first < n_jobs && jobs[first].w.type == type; ++first) {
      EBB_ASSERT(jobs[first].w.n_cols == x.n_cols);
      same.job[same.n_jobs++] = jobs[first];
    }
    with_format(type, [&]<format Type>() {
      if constexpr (is_float(Type)) {
        for (unsigned job = 0; job < same.n_jobs; ++job) {
          float_matmul_few<Type>({.w = same.job[job].w, .x = x, .n = n, .y = same.job[job].y, .add = same.job[job].add}, stream);
        }
      } else {
        launch<Type>(same, x, n, stream);
      }
    });
  }
}

}  // namespace ebb::kernels::cuda

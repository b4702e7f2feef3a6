#include "config/assert.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matvec.cuh"
#include "kernels/cuda/matvec.hpp"

namespace ebb::kernels::cuda {
namespace {

constexpr unsigned rows_per_block = 8;  // of weights, a warp each

struct matvec_batch {
  matvec_job job[matvec_jobs_max];
  unsigned n_jobs;
};

// Jobs before the last are of format Type, the last one is of format LastType.
template <format Type, format LastType, unsigned N>
__global__ void __launch_bounds__(rows_per_block * 32) matvec_kernel(matvec_batch jobs, activation_buffer x, std::uint32_t n) {
  std::uint32_t r = blockIdx.x * rows_per_block + threadIdx.x / 32;
  matvec_job job = jobs.job[0];
  bool is_last = jobs.n_jobs == 1;
#pragma unroll
  for (unsigned next = 1; next < matvec_jobs_max; ++next) {
    if (next >= jobs.n_jobs || r < job.w.n_rows) break;
    r -= job.w.n_rows;
    job = jobs.job[next];
    is_last = next + 1 == jobs.n_jobs;
  }
  const bool exists = r < job.w.n_rows, of_last = Type != LastType && is_last;
  const std::size_t n_bytes = of_last ? row_bytes<LastType>(x.n_cols) : row_bytes<Type>(x.n_cols);
  const std::uint8_t* row = job.w.data + std::size_t{r} * n_bytes;
  if (exists) fetch_to_cache(row, n_bytes);
  begin_kernel();
  if (!exists) return;
  float y[1][N];
  if (of_last) multiply_rows<LastType, 1, N>({row}, x, 0, n, y);
  else multiply_rows<Type, 1, N>({row}, x, 0, n, y);
  if (threadIdx.x % 32 != first_holder) return;
#pragma unroll
  for (unsigned i = 0; i < N; ++i) {
    if (i >= n) break;
    float* to = job.y + std::size_t{i} * job.w.n_rows + r;
    *to = job.add ? __fadd_rn(*to, y[0][i]) : y[0][i];
  }
}

template <format Type, format LastType>
void launch(const matvec_batch& jobs, const activation_buffer& x, std::uint32_t n, cudaStream_t stream) {
  std::uint32_t n_rows = 0;
  for (unsigned job = 0; job < jobs.n_jobs; ++job) n_rows += jobs.job[job].w.n_rows;
  const unsigned blocks = (n_rows + rows_per_block - 1) / rows_per_block, threads = rows_per_block * 32;
  if (n == 1) launch_kernel(matvec_kernel<Type, LastType, 1>, dim3(blocks), threads, 0, stream, jobs, x, n);
  else if (n == 2) launch_kernel(matvec_kernel<Type, LastType, 2>, dim3(blocks), threads, 0, stream, jobs, x, n);
  else if (n <= 4) launch_kernel(matvec_kernel<Type, LastType, 4>, dim3(blocks), threads, 0, stream, jobs, x, n);
  else launch_kernel(matvec_kernel<Type, LastType, 8>, dim3(blocks), threads, 0, stream, jobs, x, n);
}

constexpr unsigned float_warps = 4, float_steps = 64;  // a thread's values of a pass; four threads of a lane make 256 steps, or 2,048 columns

// A warp a row of float weights. The lane's values of a pass lie in four threads 8 apart, in ascending pieces, all read at once; its sum goes from one
// to the next.
template <format Type>
__global__ void __launch_bounds__(float_warps * 32) float_matvec_kernel(matvec_job job, activation_buffer x, std::uint32_t n) {
  constexpr std::uint32_t pass = 32 * float_steps;
  const std::uint32_t r = blockIdx.x * float_warps + threadIdx.x / 32;
  const bool exists = r < job.w.n_rows;
  if (exists) fetch_to_cache(job.w.data + std::size_t{r} * row_bytes<Type>(x.n_cols), row_bytes<Type>(x.n_cols));
  begin_kernel();
  if (!exists) return;
  const unsigned thread = threadIdx.x % 32, l = thread % 8, piece = thread / 8;
  const std::uint8_t* row = job.w.data + std::size_t{r} * row_bytes<Type>(x.n_cols);
  for (std::uint32_t i = 0; i < n; ++i) {
    float y = 0.0f;
    for (std::uint32_t begin = 0; begin < x.n_cols; begin += pass) {
      const std::uint32_t first = begin + piece * 8 * float_steps + l;
      float w[float_steps], met[float_steps];
#pragma unroll
      for (unsigned step = 0; step < float_steps; ++step) {
        const std::uint32_t c = first + step * 8;
        w[step] = c < x.n_cols ? float_weight<Type>(row, c) : 0.0f;
        met[step] = c < x.n_cols ? __ldg(x.x + std::size_t{i} * x.n_cols + c) : 0.0f;
      }
#pragma unroll
      for (unsigned turn = 0; turn < 4; ++turn) {
        const float before = __shfl_sync(0xffffffffu, y, (thread + 24) % 32);
        float lane = before;
#pragma unroll
        for (unsigned step = 0; step < float_steps; ++step) {
          if (first + step * 8 < x.n_cols) lane = __fmaf_rn(w[step], met[step], lane);  // a missing column is left out: a lane may be -0
        }
        if (piece == turn) y = lane;
      }
    }
    y = lane_sum(y);
    if (thread != first_holder) continue;
    float* to = job.y + std::size_t{i} * job.w.n_rows + r;
    *to = job.add ? __fadd_rn(*to, y) : y;
  }
}

template <format Type>
void launch_float(const matvec_job& job, const activation_buffer& x, std::uint32_t n, cudaStream_t stream) {
  launch_kernel(float_matvec_kernel<Type>, dim3((job.w.n_rows + float_warps - 1) / float_warps), float_warps * 32, 0, stream, job, x, n);
}

}  // namespace

void matvec(const matvec_job* jobs, unsigned n_jobs, const activation_buffer& x, std::uint32_t n, cudaStream_t stream) {
  EBB_ASSERT(n >= 1);
  EBB_ASSERT(n <= matvec_rows_max);
  EBB_ASSERT(n_jobs <= matvec_jobs_max);
  for (unsigned first = 0; first < n_jobs;) {
    const format type = jobs[first].w.type;
    matvec_batch batch{{}, 0};  // neighbours of one format; and one of Q6_K behind them, as mixtures have it
    const auto take = [&] {
      EBB_ASSERT(jobs[first].w.n_cols == x.n_cols);
      batch.job[batch.n_jobs++] = jobs[first++];
    };
    while (first < n_jobs && jobs[first].w.type == type) take();
    const bool mixed = !is_float(type) && type != format::q6_k && first + 1 == n_jobs && jobs[first].w.type == format::q6_k;
    if (mixed) take();
    with_format(type, [&]<format Type>() {
      if constexpr (is_float(Type)) {
        for (unsigned job = 0; job < batch.n_jobs; ++job) launch_float<Type>(batch.job[job], x, n, stream);
      } else if (mixed) {
        launch<Type, format::q6_k>(batch, x, n, stream);
      } else {
        launch<Type, Type>(batch, x, n, stream);
      }
    });
  }
}

}  // namespace ebb::kernels::cuda

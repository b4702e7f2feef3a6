#include "config/assert.hpp"
#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/experts.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matvec.cuh"

namespace ebb::kernels::cuda {
namespace {

constexpr unsigned fetch_blocks = 64, fetch_threads = 256;
constexpr unsigned hidden_rows = 8;
constexpr unsigned down_threads = 256, down_experts_max = 32;

__global__ void fetch_kernel(const staging_list* what, staging_place to) {
  begin_kernel();
  const std::uint32_t count = what->count;
  for (std::uint32_t place = 0; place < count; ++place) {
    std::uint8_t* at = to.base + place * to.stride_bytes;
    for (unsigned m = 0; m < matrices_per_expert; ++m) {
      const std::uint8_t* from = what->from[place][m];
      const std::uint64_t n = to.size_bytes[m];
      if (reinterpret_cast<std::uintptr_t>(from) % 16 == 0 && reinterpret_cast<std::uintptr_t>(at) % 16 == 0) {
        const auto* source = reinterpret_cast<const uint4*>(from);
        auto* target = reinterpret_cast<uint4*>(at);
#pragma unroll 4
        for (std::uint64_t i = blockIdx.x * fetch_threads + threadIdx.x; i < n / 16; i += fetch_blocks * fetch_threads) target[i] = source[i];
        for (std::uint64_t i = n / 16 * 16 + blockIdx.x * fetch_threads + threadIdx.x; i < n; i += fetch_blocks * fetch_threads) at[i] = from[i];
      } else {
        for (std::uint64_t i = blockIdx.x * fetch_threads + threadIdx.x; i < n; i += fetch_blocks * fetch_threads) at[i] = from[i];
      }
      at += n;
    }
  }
}

// A block is hidden_rows outputs of one pair, a warp each: a row of gate and the same of up. Of the blocks that share a block of 32 values, the last
// to end quantises it.
template <format Type>
__global__ void __launch_bounds__(hidden_rows * 32) hidden_kernel(expert_pass what) {
  begin_kernel();
  __shared__ float product[2][hidden_rows];
  __shared__ bool last;
  const std::uint32_t pair = blockIdx.y;
  const device_pair of = what.pairs[pair];
  if (of.way == pair_way::cpu) return;
  const unsigned r = threadIdx.x / 32;
  const std::size_t begin = std::size_t{blockIdx.x * hidden_rows + r} * row_bytes<Type>(what.d_model);
  float y[2][1];
  multiply_rows<Type, 2, 1>({of.matrix[0] + begin, of.matrix[1] + begin}, what.normed, pair / what.top_k, 1, y);
  if (threadIdx.x % 32 == first_holder) product[0][r] = y[0][0], product[1][r] = y[1][0];
  __syncthreads();
  const std::size_t block = std::size_t{pair} * (what.d_ff / 32) + blockIdx.x * hidden_rows / 32;
  if (threadIdx.x >= 32) return;
  if (threadIdx.x < hidden_rows) {
    const std::size_t at = std::size_t{pair} * what.d_ff + blockIdx.x * hidden_rows + threadIdx.x;
    what.hidden.x[at] = __fmul_rn(exact_silu(product[0][threadIdx.x]), product[1][threadIdx.x]);
    __threadfence();
  }
  __syncwarp();
  if (threadIdx.x == 0) last = atomicAdd(&what.arrivals[block], 1u) == 32 / hidden_rows - 1;
  __syncwarp();
  if (!last) return;
  __threadfence();
  if (threadIdx.x == 0) what.arrivals[block] = 0;
  quantise_twice(__ldcg(what.hidden.x + block * 32 + threadIdx.x), block, what.hidden);
}

// A block is one output of one row, of all its experts, a warp each.
template <format Type>
__global__ void __launch_bounds__(down_threads) down_kernel(expert_pass what) {
  begin_kernel();
  __shared__ float out[down_experts_max];
  const std::uint32_t row = blockIdx.y, r = blockIdx.x;
  for (unsigned k = threadIdx.x / 32; k < what.top_k; k += down_threads / 32) {
    const std::uint32_t pair = row * what.top_k + k;
    const device_pair of = what.pairs[pair];
    float y[1][1];
    if (of.way == pair_way::gpu) multiply_rows<Type, 1, 1>({of.matrix[2] + std::size_t{r} * row_bytes<Type>(what.d_ff)}, what.hidden, pair, 1, y);
    else y[0][0] = what.cpu_out[std::size_t{of.place} * what.d_model + r];
    if (threadIdx.x % 32 == first_holder) out[k] = y[0][0];
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = 0.0f;
  for (std::uint32_t k = 0; k < what.top_k; ++k) sum = __fmaf_rn(what.weight[row * what.top_k + k], out[k], sum);
  float* to = what.x + std::size_t{row} * what.d_model + r;
  *to = __fadd_rn(*to, sum);
}

__device__ inline std::uint64_t now_ns() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

__global__ void await_kernel(awaited what) {
  begin_kernel();
  const std::uint32_t n = what.staging->n_cpu;
  if (n == 0) return;
  if (threadIdx.x == 0) {
    const std::uint32_t number = doorbell_number(*what.window_number, what.layer, what.n_layers);
    const volatile std::uint32_t* answered = &what.bell->answered;
    const volatile std::uint32_t* gave_up = &what.bell->gave_up;
    const std::uint64_t began = now_ns();
    while (*answered != number) {
      if (now_ns() - began < what.timeout_ns && *gave_up == 0) continue;
      *const_cast<volatile std::uint32_t*>(&what.bell->gave_up) = 1;
      break;
    }
    __threadfence_system();
  }
  __syncthreads();
  const auto* from = reinterpret_cast<const float4*>(what.results);
  auto* to = reinterpret_cast<float4*>(what.cpu_out);
  for (std::size_t i = threadIdx.x; i < std::size_t{n} * what.d_model / 4; i += blockDim.x) to[i] = __ldcv(from + i);
}

}  // namespace

void fetch_staged(const staging_list* what, const staging_place& to, cudaStream_t stream) {
  launch_kernel(fetch_kernel, dim3(fetch_blocks), fetch_threads, 0, stream, what, to);
}

void expert_hidden(const expert_pass& what, cudaStream_t stream) {
  EBB_ASSERT(what.formats[0] == what.formats[1]);
  EBB_ASSERT(what.d_ff % 32 == 0);
  const dim3 grid(what.d_ff / hidden_rows, what.n_rows * what.top_k);
  with_format(what.formats[0], [&]<format Type>() {
    if constexpr (is_float(Type)) assert_failed("experts that are computed a pair at a time are quantised", __FILE__, __LINE__);
    else launch_kernel(hidden_kernel<Type>, grid, hidden_rows * 32, 0, stream, what);
  });
}

void expert_down(const expert_pass& what, cudaStream_t stream) {
  EBB_ASSERT(what.top_k <= down_experts_max);
  const dim3 grid(what.d_model, what.n_rows);
  with_format(what.formats[2], [&]<format Type>() {
    if constexpr (is_float(Type)) assert_failed("experts that are computed a pair at a time are quantised", __FILE__, __LINE__);
    else launch_kernel(down_kernel<Type>, grid, down_threads, 0, stream, what);
  });
}

void await_misses(const awaited& what, cudaStream_t stream) { launch_kernel(await_kernel, dim3(1), 512, 0, stream, what); }

}  // namespace ebb::kernels::cuda

#include "config/assert.hpp"
#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/experts.hpp"
#include "kernels/cuda/matvec.cuh"

namespace ebb::kernels::cuda {
namespace {

constexpr unsigned fetch_blocks = 64, fetch_threads = 256;
constexpr unsigned hidden_threads = 512;
constexpr unsigned down_threads = 512, down_rows = 8;

__global__ void fetch_kernel(const staging_list* what, staging_place to) {
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

// A block is 32 outputs of one pair: a warp takes every 16th row of gate, then of up.
template <format Type>
__global__ void __launch_bounds__(hidden_threads) hidden_kernel(expert_pass what) {
  __shared__ float product[64];
  const std::uint32_t pair = blockIdx.y;
  const device_pair of = what.pairs[pair];
  if (of.way == pair_way::cpu) return;
#pragma unroll
  for (unsigned turn = 0; turn < 64 / (hidden_threads / 32); ++turn) {
    const unsigned dot = turn * (hidden_threads / 32) + threadIdx.x / 32;
    const std::uint8_t* matrix = dot < 32 ? of.matrix[0] : of.matrix[1];
    float y[1];
    multiply_row<Type, 1>(matrix + std::size_t{blockIdx.x * 32 + dot % 32} * row_bytes<Type>(what.d_model), what.normed, pair / what.top_k, 1, y);
    if (threadIdx.x % 32 == first_holder) product[dot] = y[0];
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const float u = __fmul_rn(exact_silu(product[threadIdx.x]), product[32 + threadIdx.x]);
  quantise_twice(u, std::size_t{pair} * (what.d_ff / 32) + blockIdx.x, what.hidden);
}

// A block is down_rows outputs of one row, of all its experts.
template <format Type>
__global__ void __launch_bounds__(down_threads) down_kernel(expert_pass what) {
  extern __shared__ float out[];  // [top_k, down_rows]
  const std::uint32_t row = blockIdx.y, first = blockIdx.x * down_rows;
  for (unsigned dot = threadIdx.x / 32; dot < what.top_k * down_rows; dot += down_threads / 32) {
    const std::uint32_t k = dot / down_rows, r = dot % down_rows, pair = row * what.top_k + k;
    const device_pair of = what.pairs[pair];
    float y[1];
    if (of.way == pair_way::gpu) multiply_row<Type, 1>(of.matrix[2] + std::size_t{first + r} * row_bytes<Type>(what.d_ff), what.hidden, pair, 1, y);
    else y[0] = what.cpu_out[std::size_t{of.place} * what.d_model + first + r];
    if (threadIdx.x % 32 == first_holder) out[dot] = y[0];
  }
  __syncthreads();
  if (threadIdx.x >= down_rows) return;
  float sum = 0.0f;
  for (std::uint32_t k = 0; k < what.top_k; ++k) sum = __fmaf_rn(what.weight[row * what.top_k + k], out[k * down_rows + threadIdx.x], sum);
  float* to = what.x + std::size_t{row} * what.d_model + first + threadIdx.x;
  *to = __fadd_rn(*to, sum);
}

__device__ inline std::uint64_t now_ns() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

__global__ void await_kernel(awaited what) {
  const std::uint32_t n = what.staging->n_cpu;
  if (n == 0) return;
  if (threadIdx.x == 0) {
    const std::uint32_t number = doorbell_number(*what.window_number, what.layer, what.n_layers);
    const volatile std::uint32_t* answered = &what.bell->answered;
    const volatile std::uint32_t* gave_up = &what.bell->gave_up;
    const std::uint64_t began = now_ns();
    while (*answered != number) {
      if (now_ns() - began < doorbell_timeout_ns && *gave_up == 0) continue;
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
  fetch_kernel<<<fetch_blocks, fetch_threads, 0, stream>>>(what, to);
}

void expert_hidden(const expert_pass& what, cudaStream_t stream) {
  EBB_ASSERT(what.formats[0] == what.formats[1]);
  EBB_ASSERT(what.d_ff % 32 == 0);
  const dim3 grid(what.d_ff / 32, what.n_rows * what.top_k);
  with_format(what.formats[0], [&]<format Type>() {
    if constexpr (is_float(Type)) assert_failed("experts that are computed a pair at a time are quantised", __FILE__, __LINE__);
    else hidden_kernel<Type><<<grid, hidden_threads, 0, stream>>>(what);
  });
}

void expert_down(const expert_pass& what, cudaStream_t stream) {
  EBB_ASSERT(what.d_model % down_rows == 0);
  const dim3 grid(what.d_model / down_rows, what.n_rows);
  const std::size_t shared_bytes = std::size_t{what.top_k} * down_rows * sizeof(float);
  with_format(what.formats[2], [&]<format Type>() {
    if constexpr (is_float(Type)) assert_failed("experts that are computed a pair at a time are quantised", __FILE__, __LINE__);
    else down_kernel<Type><<<grid, down_threads, shared_bytes, stream>>>(what);
  });
}

void await_misses(const awaited& what, cudaStream_t stream) { await_kernel<<<1, 512, 0, stream>>>(what); }

}  // namespace ebb::kernels::cuda

#include "config/assert.hpp"
#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/router.hpp"

namespace ebb::kernels::cuda {
namespace {

constexpr unsigned per_thread_max = 16;  // n_experts <= 512
constexpr unsigned dispatch_threads = doorbell_rows_max * 32;

// Whether a candidate ranks before another.
__device__ inline bool ahead(float logit, std::uint32_t index, float other, std::uint32_t other_index) {
  return logit > other || (logit == other && index < other_index);
}

// By one warp. An expert that is picked leaves the race as -inf with an index beyond all.
__device__ void rank_row(const ranking& what, std::uint32_t row) {
  const unsigned thread = threadIdx.x % 32;
  const float* logits = what.logits + std::size_t{row} * what.n_experts;
  float mine[per_thread_max];
#pragma unroll
  for (unsigned i = 0; i < per_thread_max; ++i) {
    const std::uint32_t e = i * 32 + thread;
    const float logit = e < what.n_experts ? logits[e] : 0.0f;
    mine[i] = logit == logit ? logit : -INFINITY;  // what a NaN gives is not defined, but an expert that exists
  }
  std::uint32_t taken = 0;  // bit i: mine[i] has been picked
  float first = 0.0f, sum = 0.0f;
  for (std::uint32_t k = 0; k < what.top_k; ++k) {
    float best = -INFINITY;
    std::uint32_t best_index = ~0u;
#pragma unroll
    for (unsigned i = 0; i < per_thread_max; ++i) {
      const std::uint32_t e = i * 32 + thread;
      if (e < what.n_experts && !(taken >> i & 1) && ahead(mine[i], e, best, best_index)) best = mine[i], best_index = e;
    }
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best, step);
      const std::uint32_t other_index = __shfl_xor_sync(0xffffffffu, best_index, step);
      if (ahead(other, other_index, best, best_index)) best = other, best_index = other_index;
    }
    if (best_index % 32 == thread) taken |= 1u << (best_index / 32);
    if (k == 0) first = best;
    const float power = exact_exp(__fsub_rn(best, first));
    sum = k == 0 ? __fadd_rn(0.0f, power) : __fadd_rn(sum, power);
    if (thread == 0) {
      what.picked[std::size_t{row} * what.top_k + k] = best_index;
      what.weight[std::size_t{row} * what.top_k + k] = power;
    }
  }
  __syncwarp();
  if (thread < what.top_k) {
    float* weight = what.weight + std::size_t{row} * what.top_k + thread;
    *weight = __fdiv_rn(*weight, sum);
  }
}

__global__ void rank_kernel(ranking what) {
  begin_kernel();
  const std::uint32_t row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row < what.n_rows) rank_row(what, row);
}

// By the whole block. Both sides have room up to the next multiple of 16 bytes.
__device__ void copy_words(const void* from, void* to, std::size_t n_bytes) {
  const auto* source = static_cast<const uint4*>(from);
  auto* target = static_cast<uint4*>(to);
  for (std::size_t i = threadIdx.x; i < (n_bytes + 15) / 16; i += blockDim.x) target[i] = source[i];
}

__global__ void __launch_bounds__(dispatch_threads) dispatch_kernel(dispatch what) {
  begin_kernel();
  __shared__ std::uint32_t expert_of[doorbell_misses_max], rank_of[doorbell_misses_max];
  __shared__ std::uint32_t n_missing, n_cpu_experts, n_cpu_pairs;
  __shared__ std::uint32_t picks[doorbell_misses_max];
  const ranking& rank = what.rank;
  const std::uint32_t n_pairs = rank.n_rows * rank.top_k, pair = threadIdx.x;

  ranking near = rank;
  near.picked = picks;
  if (threadIdx.x / 32 < rank.n_rows) rank_row(near, threadIdx.x / 32);
  __syncthreads();
  if (pair < n_pairs) rank.picked[pair] = picks[pair];

  if (what.bell == nullptr) {
    if (pair < n_pairs) {
      const device_expert& found = what.experts[picks[pair]];
      what.pairs[pair] = {{found.matrix[0], found.matrix[1], found.matrix[2]}, pair_way::gpu, 0};
    }
    return;
  }

  // Distinct missing experts are numbered in the order of the pairs that name them first.
  bool missing = false;
  device_expert found{};
  if (pair < n_pairs) {
    found = what.experts[picks[pair]];
    missing = found.in_slot == 0;
    expert_of[pair] = missing ? picks[pair] : ~0u;
  }
  if (pair == 0) n_missing = 0, n_cpu_pairs = 0;
  __syncthreads();
  std::uint32_t first = pair;
  if (missing) {
    for (std::uint32_t other = 0; other < pair; ++other) {
      if (expert_of[other] == expert_of[pair]) {
        first = other;
        break;
      }
    }
  }
  if (pair == 0) {
    std::uint32_t count = 0;
    for (std::uint32_t p = 0; p < n_pairs; ++p) {
      if (expert_of[p] == ~0u) continue;
      bool fresh = true;
      for (std::uint32_t other = 0; other < p && fresh; ++other) fresh = expert_of[other] != expert_of[p];
      if (fresh) rank_of[p] = count++;
    }
    n_missing = count;
    const std::uint32_t chosen = what.cpu_of[count];
    const std::uint32_t beyond = count > what.place.capacity ? count - what.place.capacity : 0;
    n_cpu_experts = max(chosen, beyond);
  }
  __syncthreads();
  if (pair < n_pairs) {
    device_pair decided{{found.matrix[0], found.matrix[1], found.matrix[2]}, pair_way::gpu, 0};
    if (missing) {
      const std::uint32_t number = rank_of[first];
      if (number < n_cpu_experts) {
        decided.way = pair_way::cpu;
        decided.place = atomicAdd(&n_cpu_pairs, 1u);
        what.bell->misses[decided.place] = {pair / rank.top_k, picks[pair]};
      } else {
        const std::uint32_t place = number - n_cpu_experts;
        const std::uint8_t* at = what.place.base + place * what.place.stride_bytes;
        for (unsigned m = 0; m < matrices_per_expert; ++m) {
          if (first == pair) what.staging->from[place][m] = found.matrix[m];
          decided.matrix[m] = at;
          at += what.place.size_bytes[m];
        }
      }
    }
    what.pairs[pair] = decided;
  }
  __syncthreads();
  if (pair == 0) {
    what.staging->count = n_missing - n_cpu_experts;
    what.staging->n_cpu = n_cpu_pairs;
  }
  if (n_cpu_pairs == 0) return;
  const std::size_t n_values = std::size_t{rank.n_rows} * what.normed.n_cols;
  for (unsigned p = 0; p < 2; ++p) {
    copy_words(what.normed.part[p].q, what.posted[p].q, n_values);
    copy_words(what.normed.part[p].d, what.posted[p].d, n_values / 32 * sizeof(float));
    copy_words(what.normed.part[p].sum, what.posted[p].sum, n_values / 32 * sizeof(std::int32_t));
  }
  __threadfence_system();
  __syncthreads();
  if (pair == 0) {
    what.bell->layer = what.layer;
    what.bell->n_misses = n_cpu_pairs;
    __threadfence_system();
    *const_cast<volatile std::uint32_t*>(&what.bell->rung) = doorbell_number(*what.window_number, what.layer, what.n_layers);
  }
}

}  // namespace

void rank_experts(const ranking& what, cudaStream_t stream) {
  EBB_ASSERT(what.n_experts <= per_thread_max * 32);
  EBB_ASSERT(what.top_k <= 32);
  launch_kernel(rank_kernel, dim3((what.n_rows + 3) / 4), 128, 0, stream, what);
}

void dispatch_experts(const dispatch& what, cudaStream_t stream) {
  EBB_ASSERT(what.rank.n_experts <= per_thread_max * 32);
  EBB_ASSERT(what.rank.n_rows <= doorbell_rows_max);
  EBB_ASSERT(what.rank.n_rows * what.rank.top_k <= doorbell_misses_max);
  launch_kernel(dispatch_kernel, dim3(1), dispatch_threads, 0, stream, what);
}

}  // namespace ebb::kernels::cuda

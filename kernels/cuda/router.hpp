// kernels/cuda/router.hpp: which experts a row goes to, with what weights, and which way each of them is computed.
#pragma once
#include "kernels/cuda/activations.hpp"
#include "kernels/cuda/mailslot.hpp"
#include "kernels/expert_entry.hpp"
#include <cuda_runtime.h>

namespace ebb::kernels::cuda {

// An expert as a window on the GPU finds it: in the GPU's memory or in the store.
struct device_expert {
  const std::uint8_t* matrix[matrices_per_expert];
  std::uint64_t in_slot;
};

enum class pair_way : std::uint32_t { gpu, cpu };

// One (row, rank): pair = row * top_k + rank.
struct device_pair {
  const std::uint8_t* matrix[matrices_per_expert];  // of a slot or of the staging buffer
  pair_way way;
  std::uint32_t place;  // of the CPU's result
};

// Experts that a window needs from the store and the GPU computes: copied into places of the staging buffer first.
struct staging_list {
  std::uint32_t count;
  std::uint32_t n_cpu;  // pairs that the CPU computes in this layer
  const std::uint8_t* from[doorbell_misses_max][matrices_per_expert];
};

struct ranking {
  const float* logits;    // [n_rows, n_experts]
  std::uint32_t n_rows, n_experts, top_k;
  std::uint32_t* picked;  // [n_rows, top_k], in host memory
  float* weight;          // [n_rows, top_k]
};

// Ranks by logit, of equal ones the smaller index first; weights are the softmax over those picked. A warp a row.
void rank_experts(const ranking& what, cudaStream_t stream);

struct staging_place {
  std::uint8_t* base = nullptr;                          // [capacity, stride_bytes]
  std::uint64_t stride_bytes = 0;
  std::uint64_t size_bytes[matrices_per_expert] = {};    // of one matrix of this layer; they lie one behind the other
  std::uint32_t capacity = 0;
};

struct dispatch {
  ranking rank;                    // n_rows <= doorbell_rows_max
  const device_expert* experts;    // [n_experts], of this layer
  device_pair* pairs;              // [n_rows * top_k]
  // Null where every expert is known to be in a slot, and then nothing below is used.
  mailslot* bell = nullptr;
  staging_list* staging = nullptr;
  staging_place place;
  const std::uint32_t* cpu_of = nullptr;  // [doorbell_misses_max + 1]: of so many missing experts, how many the CPU computes
  const std::uint32_t* window_number = nullptr;
  std::uint32_t layer = 0, n_layers = 0;
  activation_buffer normed;        // [n_rows, d_model]
  quantised_buffer posted[2];      // in the mailslot's memory, as `normed`
};

// Ranks, then decides each pair's way; rings the doorbell if the CPU has something to do. One block.
void dispatch_experts(const dispatch& what, cudaStream_t stream);

// The number that the doorbell of a layer has in a window; never 0.
__host__ __device__ inline std::uint32_t doorbell_number(std::uint32_t window, std::uint32_t layer, std::uint32_t n_layers) {
  return (window * n_layers + layer) * 2 + 1;
}

}  // namespace ebb::kernels::cuda

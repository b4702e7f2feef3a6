// kernels/cuda/experts.hpp: the experts of a window of few rows, each (row, rank) by itself: gate, up, silu, down, and their sum in rank order.
#pragma once
#include "kernels/cuda/router.hpp"
#include "kernels/format.hpp"

namespace ebb::kernels::cuda {

// Copies the experts of the staging list out of the store: kernels reading mapped memory reach what copies by the copy engine do.
void fetch_staged(const staging_list* what, const staging_place& to, cudaStream_t stream);

struct expert_pass {
  const device_pair* pairs;       // [n_rows * top_k]
  const float* weight;            // [n_rows, top_k]
  std::uint32_t n_rows, top_k, d_model, d_ff;
  format formats[matrices_per_expert];
  activation_buffer normed;       // [n_rows, d_model]
  activation_buffer hidden;       // [n_rows * top_k, d_ff]
  std::uint32_t* arrivals;        // [n_rows * top_k, d_ff / 32], zero before and after
  const float* cpu_out = nullptr; // [places, d_model]; null where the CPU computes nothing
  float* x = nullptr;             // [n_rows, d_model], to which the experts' sum is added
};

// hidden = quantised silu(gate h) * (up h), for every pair that is the GPU's. Pre: both matrices have the same format (asserts).
void expert_hidden(const expert_pass& what, cudaStream_t stream);

// x[row] += sum over k of weight[k] * down(hidden of pair k), in rank order.
void expert_down(const expert_pass& what, cudaStream_t stream);

// Waits for the CPU's results of a layer, if it was given any, and copies them to cpu_out.
struct awaited {
  mailslot* bell;
  const staging_list* staging;
  const std::uint32_t* window_number;
  std::uint32_t layer, n_layers, d_model;
  const float* results;  // [places, d_model], in the mailslot's memory
  float* cpu_out;
  std::uint64_t timeout_ns;
};
void await_misses(const awaited& what, cudaStream_t stream);

}  // namespace ebb::kernels::cuda

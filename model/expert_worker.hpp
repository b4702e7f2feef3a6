// model/expert_worker.hpp: computes experts by the CPU, for pairs of a row and an expert of one layer:
//   out[i] = down_e(silu(gate_e h) * (up_e h)),   h = row r of the activations, (r, e) = pairs[i]
//
// Pairs are grouped by expert, so that an expert's weights are read once for all its rows; each pair's arithmetic is independent of the
// others (docs/ARITHMETIC.md). Two regions of the pool a call, and no memory is taken: it all is when the worker is made.
// One thread at a time.
#pragma once
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include "kernels/gpu.hpp"
#include "model/architecture.hpp"
#include "model/catalog.hpp"
#include "model/row_buffer.hpp"
#include <span>
#include <vector>

namespace ebb::model {

// A row of the activations, and an expert of the layer.
using expert_pair = kernels::miss;

// The experts of a layer, to be read by the CPU.
struct layer_experts {
  std::span<const kernels::expert_entry> entries;  // [n_experts]
  layer_formats formats;
};

class expert_worker {
 public:
  // `ops` and `pool` must outlive the worker.
  expert_worker(const shape& dims, std::uint32_t pairs_max, const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool);

  std::uint32_t pairs_max() const noexcept { return static_cast<std::uint32_t>(places_.size()); }

  // out [pairs, d_model]. Pre: 1 <= pairs <= pairs_max, every expert < n_experts (asserts); x is quantised in both parts, and as floats too
  // where gate or up are float weights.
  void compute(std::span<const expert_pair> pairs, const layer_experts& experts, const kernels::activations& x, float* out);

 private:
  void group_by_expert(std::span<const expert_pair> pairs);
  void gate_and_up(const layer_experts& experts, const kernels::activations& x);
  void down(const layer_experts& experts, float* out);
  std::uint32_t group_size(std::uint32_t group) const noexcept { return group_begin_[group + 1] - group_begin_[group]; }

  const kernels::cpu::ops& ops_;
  kernels::cpu::worker_pool& pool_;
  std::uint32_t d_model_, d_ff_, n_experts_;

  std::vector<float> gate_, up_;  // [pairs, d_ff]
  row_buffer hidden_;             // [pairs, d_ff]

  // The pairs sorted by expert: group g is places_[group_begin_[g] .. group_begin_[g + 1]), places in `pairs`, of expert group_expert_[g].
  std::vector<std::uint32_t> places_, rows_;
  std::vector<std::uint32_t> group_expert_, group_begin_;
  std::vector<kernels::matmul_job> jobs_;
};

}  // namespace ebb::model

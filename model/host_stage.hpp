// model/host_stage.hpp: the stage that the CPU computes, its experts read from wherever the table says, which is memory of this machine.
#pragma once
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include "model/expert_worker.hpp"
#include "model/kv_cache.hpp"
#include "model/row_buffer.hpp"
#include "model/stage.hpp"
#include <vector>

namespace ebb::model {

class host_stage final : public stage {
 public:
  // Errors: out_of_memory (as kv_cache::make). `ops` and `pool` must outlive the stage.
  static result<std::unique_ptr<stage>> make(std::shared_ptr<const checkpoint> weights, const stage_options& options,
                                             const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool);

  std::span<const std::uint32_t> picked(std::uint32_t layer, std::uint32_t row) const noexcept override;
  std::span<const float> logits() const noexcept override { return {logits_.data(), n_logits_}; }

  // A session that ends gives its pages back.
  void forget(std::uint32_t session) noexcept override { kv_.clear(session); }

 private:
  host_stage(std::shared_ptr<const checkpoint> weights, const stage_options& options, const kernels::cpu::ops& ops,
             kernels::cpu::worker_pool& pool, kv_cache kv);

  result<void> do_run(std::span<const window_row> rows, std::span<const std::uint32_t> sampled, const expert_table& experts, float* x,
                      window_hints hints) override;
  void attend(std::uint32_t layer, std::span<const window_row> rows, float* x);
  void project_qkv(const layer_weights& weights, std::uint32_t n_rows);
  void turn_and_store(const layer_weights& weights, std::uint32_t layer, std::span<const window_row> rows);
  void feed_forward(std::uint32_t layer, const expert_table& experts, std::uint32_t n_rows, float* x);
  void route_rows(std::uint32_t layer, std::uint32_t n_rows);
  void compute_logits(std::span<const std::uint32_t> sampled, const float* x);
  void normalise(const float* x, const std::vector<float>& weight, std::uint32_t n_rows);
  void multiply(std::span<const kernels::matmul_job> jobs);
  std::size_t first_pick(std::uint32_t layer, std::uint32_t row) const noexcept;  // in picked_

  const kernels::cpu::ops& ops_;
  kernels::cpu::worker_pool& pool_;
  kv_cache kv_;

  // Scratch of a window. A pair is one (row, rank): pair = row * top_k + rank.
  row_buffer normed_;                        // [rows, d_model]
  std::vector<float> q_, k_, v_;             // [rows, heads * head_dim]
  row_buffer attended_;                      // [rows, n_heads * head_dim]
  std::vector<float> projected_;             // [rows, d_model]
  std::vector<float> cos_, sin_;             // [rows, head_dim / 2]
  std::vector<float> scores_;                // [threads, context]
  std::vector<float> router_logits_;         // [rows, n_experts]
  std::vector<std::uint32_t> picked_;        // [layers of the stage, rows, top_k]
  std::vector<expert_pair> pairs_;           // [pairs], of one layer
  std::vector<float> pair_weight_;           // [pairs]
  std::vector<float> expert_out_;            // [pairs, d_model]
  expert_worker worker_;
  std::vector<float> logits_;                // [sampled_max, n_vocab], on the last stage
  std::size_t n_logits_ = 0;                 // of the last run
  std::vector<kernels::matmul_job> jobs_;
};

}  // namespace ebb::model

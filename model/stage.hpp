// model/stage.hpp: the forward pass of the contiguous layer range that lives on one card, computed by the CPU.
//
// A window is a batch of rows, one a position of a session. Per layer:
//   x += Wo attention(rope(norm(Wq h)), rope(norm(Wk h)), Wv h),   h = rms_norm(x, attn_norm)
//   x += sum over the top_k experts e of weight_e * down_e(silu(gate_e h) * (up_e h)),   h = rms_norm(x, ffn_norm)
// The first stage starts from embed(), the last ends with logits(); between stages the rows travel as x [n_rows, d_model] float.
//
// Every row's arithmetic is independent of the rows beside it, of how a prompt was cut into windows and of where an expert lies
// (docs/ARITHMETIC.md). Owned by one card, used by one thread at a time; memory is taken in make().
#pragma once
#include "config/ids.hpp"
#include "config/limits.hpp"
#include "config/result.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include "model/checkpoint.hpp"
#include "model/expert_table.hpp"
#include "model/kv_cache.hpp"
#include <memory>
#include <span>
#include <vector>

namespace ebb::model {

// One position of one session. Rows of a session come in ascending positions, without gaps from what its cache already holds.
struct window_row {
  std::uint32_t session;   // the place of the session in the kv cache, < kv_shape::n_sessions
  std::uint32_t position;  // < kv_shape::context
};

struct stage_options {
  std::uint32_t layer_begin, layer_end;
  std::uint32_t n_sessions, context;
};

class stage {
 public:
  // Errors: out_of_memory (as kv_cache::make). `pool` must outlive the stage.
  static result<std::unique_ptr<stage>> make(std::shared_ptr<const checkpoint> weights, const stage_options& options,
                                             const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool);

  // x [n, d_model] = the rows of the embedding. Pre: every token < n_vocab, n <= limits::window_rows_max (asserts).
  void embed(std::span<const token_id> tokens, float* x) const;

  // Carries x [rows, d_model] through the stage's layers, in place. picked(layer, row) is valid until the next run.
  // Pre: 1 <= rows <= limits::window_rows_max; `experts` covers this stage (asserts).
  void run(std::span<const window_row> rows, const expert_table& experts, float* x);

  // The experts that the last run picked, in rank order: [top_k].
  std::span<const std::uint32_t> picked(std::uint32_t layer, std::uint32_t row) const noexcept;

  // logits [n, n_vocab] of the rows of x that `rows` names. n <= limits::window_rows_max.
  void logits(const float* x, std::span<const std::uint32_t> rows, float* out);

  // A session that ends gives its pages back.
  void forget(std::uint32_t session) noexcept { kv_.clear(session); }

  const stage_options& options() const noexcept { return options_; }
  const shape& dims() const noexcept { return dims_; }
  std::size_t scratch_bytes() const noexcept;

 private:
  // Activations in the form that products read, for up to n_rows rows.
  struct row_buffer {
    struct quantised {
      std::vector<std::int8_t> q;
      std::vector<float> d;
      std::vector<std::int32_t> sum;
      kernels::quantised_rows view() const noexcept { return {q.data(), d.data(), sum.data()}; }
    };
    std::vector<float> x;
    quantised part[2];             // the rows, and their residuals
    std::vector<float> left_over;  // [n_rows, n_cols], what the rows lose in part[0], on its way to part[1]
    std::uint32_t n_cols = 0;
    void resize(std::uint32_t n_rows, std::uint32_t n_cols);
    // Without residuals where `coarse`.
    kernels::activations view(bool coarse = false) const noexcept {
      return {x.data(), {part[0].view(), coarse ? kernels::quantised_rows{} : part[1].view()}, n_cols};
    }
    float* row(std::uint32_t index) noexcept { return x.data() + std::size_t{index} * n_cols; }
    std::size_t size_bytes() const noexcept;
  };

  stage(std::shared_ptr<const checkpoint> weights, const stage_options& options, const kernels::cpu::ops& ops,
        kernels::cpu::worker_pool& pool, kv_cache kv);

  void attend(std::uint32_t layer, std::span<const window_row> rows, float* x);
  void project_qkv(const layer_weights& weights, std::uint32_t n_rows);
  void turn_and_store(const layer_weights& weights, std::uint32_t layer, std::span<const window_row> rows);
  void feed_forward(std::uint32_t layer, const expert_table& experts, std::uint32_t n_rows, float* x);
  void route_rows(std::uint32_t layer, std::uint32_t n_rows);
  void group_by_expert(std::uint32_t layer, std::uint32_t n_rows);
  void expert_hidden(std::uint32_t layer, const expert_table& experts);
  void expert_down(std::uint32_t layer, const expert_table& experts);

  void normalise(const float* x, const std::vector<float>& weight, std::uint32_t n_rows, row_buffer& out);
  void quantise_row(row_buffer& rows, std::uint32_t row, std::uint32_t col_begin, std::uint32_t col_end);
  // Runs products as one region: their weight rows are laid end to end and shared out.
  void multiply(std::span<const kernels::matmul_job> jobs);

  std::shared_ptr<const checkpoint> weights_;
  stage_options options_;
  shape dims_;
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
  std::vector<float> pair_weight_;           // [pairs]
  std::vector<float> gate_, up_;             // [pairs, d_ff]
  row_buffer hidden_;                        // [pairs, d_ff]
  std::vector<float> expert_out_;            // [pairs, d_model]

  // The window's pairs sorted by expert: group g is pairs_[group_begin_[g] .. group_begin_[g + 1]) of expert group_expert_[g].
  std::vector<std::uint32_t> pairs_, pair_row_;
  std::vector<std::uint32_t> group_expert_, group_begin_;
  std::vector<kernels::matmul_job> jobs_;
};

}  // namespace ebb::model

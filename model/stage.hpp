// model/stage.hpp: the forward pass of the contiguous layer range that lives on one card, as the card asks for it.
//
// A window is a batch of rows, one a position of a session. Per layer:
//   x += Wo attention(rope(norm(Wq h)), rope(norm(Wk h)), Wv h),   h = rms_norm(x, attn_norm)
//   x += sum over the top_k experts e of weight_e * down_e(silu(gate_e h) * (up_e h)),   h = rms_norm(x, ffn_norm)
// The first stage starts from embed(); the last has the output head, and gives logits. Between stages the rows travel as
// x [n_rows, d_model] float.
//
// Every row's arithmetic is independent of the rows beside it, of how a prompt was cut into windows, of where an expert lies and of
// which kind of stage computes it (docs/ARITHMETIC.md): model/host_stage.hpp, model/gpu_stage.hpp. Owned by one card, used by one
// thread at a time; memory is taken when it is made.
#pragma once
#include "config/ids.hpp"
#include "config/limits.hpp"
#include "config/result.hpp"
#include "kernels/gpu.hpp"
#include "model/checkpoint.hpp"
#include "model/expert_table.hpp"
#include <memory>
#include <span>

namespace ebb::model {

// Rows of a session come in ascending positions, without gaps from what its keys and values already hold.
using kernels::window_row;

struct stage_options {
  std::uint32_t layer_begin, layer_end;
  std::uint32_t n_sessions, context;
  std::uint32_t sampled_max = 0;  // rows of a window whose logits are wanted; 0: one a session, as many as a scheduler asks for
};

// What a stage may use to be faster; it has the same bits without.
struct window_hints {
  bool fast_path = false;         // every expert is in a slot
  bool copies_under_way = false;  // into the card's cache, over what misses would be copied over too
};

class stage {
 public:
  virtual ~stage() = default;
  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;

  // x [n, d_model] = the rows of the embedding. Pre: every token < n_vocab, n <= limits::window_rows_max (asserts).
  void embed(std::span<const token_id> tokens, float* x) const;

  // Carries x [rows, d_model] through the stage's layers, in place, and computes the logits of the rows that `sampled` names, ascending,
  // where this stage has the output head; elsewhere `sampled` is not looked at.
  // Pre: 1 <= rows <= limits::window_rows_max, sampled <= sampled_max; `experts` covers this stage, and is resident for a fast path (asserts).
  // Errors: those of kernels::gpu_stage::run; none of a host stage.
  result<void> run(std::span<const window_row> rows, std::span<const std::uint32_t> sampled, const expert_table& experts, float* x,
                   window_hints hints = {});

  // Of the last run, valid until the next. picked: the experts of a row in rank order, [top_k]; `layer` counts from the model's first.
  // logits: [sampled, n_vocab].
  virtual std::span<const std::uint32_t> picked(std::uint32_t layer, std::uint32_t row) const noexcept = 0;
  virtual std::span<const float> logits() const noexcept = 0;

  // Of the last run's misses, which are so many picks, those that the CPU computed; the others were copied to the GPU and computed there.
  virtual std::uint64_t misses_on_cpu(std::uint64_t misses) const noexcept { return misses; }  // of a host stage

  // The keys and values of a session that ends are needed no longer.
  virtual void forget(std::uint32_t session) noexcept = 0;

  virtual std::uint64_t held_bytes() const noexcept { return 0; }  // of a GPU; none of a host stage
  virtual std::uint32_t chunk_rows() const noexcept { return limits::window_rows_max; }  // rows that go through the layers at once

  const stage_options& options() const noexcept { return options_; }  // sampled_max filled in
  const shape& dims() const noexcept { return dims_; }
  bool has_output_head() const noexcept { return options_.layer_end == dims_.n_layers; }

 protected:
  // Pre: layers of the model, in order (asserts).
  stage(std::shared_ptr<const checkpoint> weights, const stage_options& options);

  const checkpoint& weights() const noexcept { return *weights_; }
  std::uint32_t n_layers() const noexcept { return options_.layer_end - options_.layer_begin; }

 private:
  virtual result<void> do_run(std::span<const window_row> rows, std::span<const std::uint32_t> sampled, const expert_table& experts, float* x,
                              window_hints hints) = 0;

  std::shared_ptr<const checkpoint> weights_;
  stage_options options_;
  shape dims_;
};

}  // namespace ebb::model

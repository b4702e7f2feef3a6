#include "model/gpu_stage.hpp"
#include "config/assert.hpp"
#include <mutex>
#include <utility>

namespace ebb::model {
namespace {

const float* or_null(const std::vector<float>& norm) { return norm.empty() ? nullptr : norm.data(); }

kernels::dense_layer describe_layer(const checkpoint& weights, std::uint32_t index) {
  const layer_weights& from = weights.layer(index);
  return {.attn_norm = from.attn_norm.data(),
          .attn_q = from.attn_q,
          .attn_k = from.attn_k,
          .attn_v = from.attn_v,
          .attn_q_norm = or_null(from.attn_q_norm),
          .attn_k_norm = or_null(from.attn_k_norm),
          .attn_output = from.attn_output,
          .ffn_norm = from.ffn_norm.data(),
          .router = from.router,
          .expert_formats = weights.experts().formats(index)};
}

}  // namespace

kernels::stage_description describe_stage(const checkpoint& weights, const stage_options& options) {
  const shape& dims = weights.dims();
  kernels::stage_description out{.shape = {.n_layers = options.layer_end - options.layer_begin,
                                           .d_model = dims.d_model,
                                           .n_heads = dims.n_heads,
                                           .n_kv_heads = dims.n_kv_heads,
                                           .head_dim = dims.head_dim,
                                           .n_experts = dims.n_experts,
                                           .top_k = dims.top_k,
                                           .d_ff = dims.d_ff,
                                           .n_vocab = dims.n_vocab,
                                           .n_sessions = options.n_sessions,
                                           .context = options.context,
                                           .rows_max = limits::window_rows_max,
                                           .sampled_max = options.sampled_max,
                                           .rms_eps = dims.rms_eps,
                                           .rope_base = dims.rope_base},
                                 .layers = {},
                                 .output = {}};
  for (std::uint32_t layer = options.layer_begin; layer < options.layer_end; ++layer) out.layers.push_back(describe_layer(weights, layer));
  if (options.layer_end == dims.n_layers) out.output = {weights.output_norm().data(), weights.output()};
  return out;
}

result<std::unique_ptr<gpu_stage>> gpu_stage::make(std::shared_ptr<const checkpoint> weights, const stage_options& options,
                                                   std::shared_ptr<const expert_store> store, std::shared_ptr<kernels::gpu> gpu,
                                                   const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool) {
  std::unique_ptr<gpu_stage> made(new gpu_stage(std::move(weights), options, std::move(store), std::move(gpu), ops, pool));
  kernels::stage_description description = describe_stage(made->weights(), made->options());
  description.store_pinned = made->store_->pinned();
  auto on_gpu = made->gpu_->make_stage(description, made->misses_);
  if (!on_gpu) return fail(on_gpu.error());
  made->on_gpu_ = std::move(*on_gpu);
  if (auto chosen = made->choose_ways(); !chosen) return fail(chosen.error());
  return made;
}

gpu_stage::gpu_stage(std::shared_ptr<const checkpoint> weights, const stage_options& wanted, std::shared_ptr<const expert_store> store,
                     std::shared_ptr<kernels::gpu> gpu, const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool)
    : stage(std::move(weights), wanted),
      store_(std::move(store)),
      misses_(store_->experts(), dims(), wanted.layer_begin, wanted.layer_end, ops, pool),
      gpu_(std::move(gpu)) {}

// Cards start side by side and share RAM and the threads: one after the other, so that none measures another.
result<void> gpu_stage::choose_ways() {
  static std::mutex turn;
  const std::lock_guard alone(turn);
  return on_gpu_->choose_ways(expert_table(store_->experts(), options().layer_begin, options().layer_end).entries());
}

result<void> gpu_stage::do_run(std::span<const window_row> rows, std::span<const std::uint32_t> sampled, const expert_table& experts, float* x,
                               window_hints hints) {
  return on_gpu_->run({.rows = rows,
                       .sampled = sampled,
                       .experts = experts.entries(),
                       .experts_version = experts.version(),
                       .resident = hints.fast_path,
                       .link_busy = hints.copies_under_way},
                      x);
}

std::span<const std::uint32_t> gpu_stage::picked(std::uint32_t layer, std::uint32_t row) const noexcept {
  EBB_DASSERT(layer >= options().layer_begin);
  EBB_DASSERT(layer < options().layer_end);
  return on_gpu_->picked(layer - options().layer_begin, row);
}

}  // namespace ebb::model

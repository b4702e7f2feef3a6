#include "model/host_stage.hpp"
#include "config/assert.hpp"
#include "kernels/cpu/shared_matmul.hpp"
#include "kernels/router.hpp"
#include <cmath>

namespace ebb::model {
namespace {

constexpr std::uint32_t rows_max = limits::window_rows_max;

}  // namespace

result<std::unique_ptr<stage>> host_stage::make(std::shared_ptr<const checkpoint> weights, const stage_options& options,
                                                const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool) {
  const shape& dims = weights->dims();
  auto kv = kv_cache::make({options.layer_end - options.layer_begin, options.n_sessions, dims.n_kv_heads, options.context, dims.head_dim});
  if (!kv) return fail(kv.error());
  return std::unique_ptr<stage>(new host_stage(std::move(weights), options, ops, pool, std::move(*kv)));
}

host_stage::host_stage(std::shared_ptr<const checkpoint> weights, const stage_options& wanted, const kernels::cpu::ops& ops,
                       kernels::cpu::worker_pool& pool, kv_cache kv)
    : stage(std::move(weights), wanted),
      ops_(ops),
      pool_(pool),
      kv_(std::move(kv)),
      normed_(rows_max, dims().d_model),
      attended_(rows_max, dims().n_heads * dims().head_dim),
      worker_(dims(), rows_max * dims().top_k, ops, pool) {
  const shape& of = dims();
  const std::uint32_t pairs = rows_max * of.top_k;
  q_.resize(std::size_t{rows_max} * of.n_heads * of.head_dim);
  k_.resize(std::size_t{rows_max} * of.n_kv_heads * of.head_dim);
  v_.resize(k_.size());
  projected_.resize(std::size_t{rows_max} * of.d_model);
  cos_.resize(std::size_t{rows_max} * of.head_dim / 2);
  sin_.resize(cos_.size());
  scores_.resize(std::size_t{pool_.n_threads()} * options().context);
  router_logits_.resize(std::size_t{rows_max} * of.n_experts);
  picked_.resize(std::size_t{n_layers()} * pairs);
  pairs_.resize(pairs);
  pair_weight_.resize(pairs);
  expert_out_.resize(std::size_t{pairs} * of.d_model);
  if (has_output_head()) logits_.resize(std::size_t{options().sampled_max} * of.n_vocab);
  jobs_.reserve(3);
}

result<void> host_stage::do_run(std::span<const window_row> rows, std::span<const std::uint32_t> sampled, const expert_table& experts, float* x,
                                window_hints) {
  const std::size_t half = dims().head_dim / 2;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    kernels::rope_angles(rows[i].position, dims().rope_base, half, &cos_[i * half], &sin_[i * half]);
  }
  for (std::uint32_t layer = options().layer_begin; layer < options().layer_end; ++layer) {
    attend(layer, rows, x);
    feed_forward(layer, experts, static_cast<std::uint32_t>(rows.size()), x);
  }
  compute_logits(sampled, x);
  return {};
}

std::size_t host_stage::first_pick(std::uint32_t layer, std::uint32_t row) const noexcept {
  return (std::size_t{layer - options().layer_begin} * rows_max + row) * dims().top_k;
}

std::span<const std::uint32_t> host_stage::picked(std::uint32_t layer, std::uint32_t row) const noexcept {
  EBB_DASSERT(layer >= options().layer_begin);
  EBB_DASSERT(layer < options().layer_end);
  return {&picked_[first_pick(layer, row)], dims().top_k};
}

void host_stage::compute_logits(std::span<const std::uint32_t> sampled, const float* x) {
  n_logits_ = sampled.size() * dims().n_vocab;
  if (sampled.empty()) return;
  for (std::uint32_t i = 0; i < sampled.size(); ++i) {
    ops_.rms_norm(x + std::size_t{sampled[i]} * dims().d_model, weights().output_norm().data(), dims().d_model, dims().rms_eps, normed_.row(i));
    normed_.quantise(ops_, i);
  }
  jobs_.assign(1, {.w = weights().output(), .x = normed_.view(true), .n = static_cast<std::uint32_t>(sampled.size()),
                   .row_end = dims().n_vocab, .y = logits_.data(), .y_stride = dims().n_vocab});
  multiply(jobs_);
}

void host_stage::attend(std::uint32_t layer, std::span<const window_row> rows, float* x) {
  const layer_weights& tensors = weights().layer(layer);
  const auto n_rows = static_cast<std::uint32_t>(rows.size());
  normalise(x, tensors.attn_norm, n_rows);
  project_qkv(tensors, n_rows);
  turn_and_store(tensors, layer, rows);

  const std::uint32_t head_dim = dims().head_dim;
  const std::uint32_t group = dims().n_heads / dims().n_kv_heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  pool_.for_ranges(n_rows * dims().n_heads, 1, [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
    for (std::uint32_t item = begin; item < end; ++item) {
      const std::uint32_t row = item / dims().n_heads;
      const std::uint32_t head = item % dims().n_heads;
      const auto [session, position] = rows[row];
      const std::uint32_t stage_layer = layer - options().layer_begin;
      ops_.attention(&q_[std::size_t{item} * head_dim], kv_.k(stage_layer, session, head / group), kv_.v(stage_layer, session, head / group),
                     position + 1, head_dim, scale, &scores_[std::size_t{thread} * options().context],
                     attended_.row(row) + std::size_t{head} * head_dim);
    }
  });
  for (std::uint32_t row = 0; row < n_rows; ++row) attended_.quantise(ops_, row);
  jobs_.assign(1, {.w = tensors.attn_output, .x = attended_.view(), .n = n_rows, .row_end = dims().d_model, .y = projected_.data(),
                   .y_stride = dims().d_model});
  multiply(jobs_);
  ops_.add(projected_.data(), std::size_t{n_rows} * dims().d_model, x);
}

void host_stage::project_qkv(const layer_weights& tensors, std::uint32_t n_rows) {
  jobs_.clear();
  const auto project = [&](const kernels::weights& w, std::vector<float>& y) {
    jobs_.push_back({.w = w, .x = normed_.view(), .n = n_rows, .row_end = w.n_rows, .y = y.data(), .y_stride = w.n_rows});
  };
  project(tensors.attn_q, q_);
  project(tensors.attn_k, k_);
  project(tensors.attn_v, v_);
  multiply(jobs_);
}

// Norm and rotation of q and k, then k and v as halves into the cache, where the rows of this very window find them too.
void host_stage::turn_and_store(const layer_weights& tensors, std::uint32_t layer, std::span<const window_row> rows) {
  const std::uint32_t head_dim = dims().head_dim;
  const std::uint32_t half = head_dim / 2;
  const std::uint32_t stage_layer = layer - options().layer_begin;
  const auto turn = [&](float* head, const std::vector<float>& norm, std::uint32_t row) {
    if (!norm.empty()) ops_.rms_norm(head, norm.data(), head_dim, dims().rms_eps, head);
    ops_.rope(head, &cos_[std::size_t{row} * half], &sin_[std::size_t{row} * half], half);
  };
  pool_.for_ranges(static_cast<std::uint32_t>(rows.size()), 4, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    for (std::uint32_t row = begin; row < end; ++row) {
      for (std::uint32_t head = 0; head < dims().n_heads; ++head) {
        turn(&q_[(std::size_t{row} * dims().n_heads + head) * head_dim], tensors.attn_q_norm, row);
      }
      const auto [session, position] = rows[row];
      for (std::uint32_t head = 0; head < dims().n_kv_heads; ++head) {
        const std::size_t from = (std::size_t{row} * dims().n_kv_heads + head) * head_dim;
        const std::size_t to = std::size_t{position} * head_dim;
        turn(&k_[from], tensors.attn_k_norm, row);
        ops_.to_half(&k_[from], head_dim, kv_.k(stage_layer, session, head) + to);
        ops_.to_half(&v_[from], head_dim, kv_.v(stage_layer, session, head) + to);
      }
    }
  });
}

void host_stage::feed_forward(std::uint32_t layer, const expert_table& experts, std::uint32_t n_rows, float* x) {
  const layer_weights& tensors = weights().layer(layer);
  const std::uint32_t top_k = dims().top_k;
  const std::uint32_t d_model = dims().d_model;
  normalise(x, tensors.ffn_norm, n_rows);
  jobs_.assign(1, {.w = tensors.router, .x = normed_.view(), .n = n_rows, .row_end = dims().n_experts, .y = router_logits_.data(),
                   .y_stride = dims().n_experts});
  multiply(jobs_);
  route_rows(layer, n_rows);
  worker_.compute(std::span(pairs_).first(std::size_t{n_rows} * top_k), {experts.layer(layer), weights().experts().formats(layer)},
                  normed_.view(), expert_out_.data());
  for (std::uint32_t row = 0; row < n_rows; ++row) {
    const std::size_t pair = std::size_t{row} * top_k;
    ops_.combine(&expert_out_[pair * d_model], d_model, &pair_weight_[pair], top_k, d_model, projected_.data());
    ops_.add(projected_.data(), d_model, x + std::size_t{row} * d_model);
  }
}

void host_stage::route_rows(std::uint32_t layer, std::uint32_t n_rows) {
  const std::uint32_t top_k = dims().top_k;
  for (std::uint32_t row = 0; row < n_rows; ++row) {
    const std::size_t pair = std::size_t{row} * top_k;
    std::uint32_t* const picks = &picked_[first_pick(layer, row)];
    kernels::route(&router_logits_[std::size_t{row} * dims().n_experts], dims().n_experts, top_k, picks, &pair_weight_[pair]);
    for (std::uint32_t rank = 0; rank < top_k; ++rank) pairs_[pair + rank] = {row, picks[rank]};
  }
}

void host_stage::normalise(const float* x, const std::vector<float>& weight, std::uint32_t n_rows) {
  for (std::uint32_t row = 0; row < n_rows; ++row) {
    ops_.rms_norm(x + std::size_t{row} * dims().d_model, weight.data(), dims().d_model, dims().rms_eps, normed_.row(row));
    normed_.quantise(ops_, row);
  }
}

void host_stage::multiply(std::span<const kernels::matmul_job> jobs) { kernels::cpu::multiply(ops_, pool_, jobs); }

}  // namespace ebb::model

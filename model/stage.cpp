#include "model/stage.hpp"
#include "config/assert.hpp"
#include "kernels/dequantize.hpp"
#include "kernels/router.hpp"
#include <algorithm>
#include <cmath>

namespace ebb::model {
namespace {

// The fewest rows of weights that a thread claims at once: fewer would not pay for packing the activations.
constexpr std::uint32_t weight_rows_per_claim = 32;
constexpr std::uint32_t activation_block = kernels::activation_block;

}  // namespace

void stage::row_buffer::resize(std::uint32_t n_rows, std::uint32_t cols) {
  n_cols = cols;
  const std::size_t n_values = std::size_t{n_rows} * cols;
  x.resize(n_values);
  left_over.resize(n_values);
  for (quantised& of : part) {
    of.q.resize(n_values);
    of.d.resize(n_values / activation_block);
    of.sum.resize(n_values / activation_block);
  }
}

std::size_t stage::row_buffer::size_bytes() const noexcept {
  const std::size_t floats = x.size() + left_over.size() + part[0].d.size() + part[1].d.size();
  return floats * sizeof(float) + part[0].q.size() + part[1].q.size() + (part[0].sum.size() + part[1].sum.size()) * sizeof(std::int32_t);
}

result<std::unique_ptr<stage>> stage::make(std::shared_ptr<const checkpoint> weights, const stage_options& options,
                                           const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool) {
  EBB_ASSERT(options.layer_begin < options.layer_end);
  EBB_ASSERT(options.layer_end <= weights->dims().n_layers);
  const shape& dims = weights->dims();
  auto kv = kv_cache::make({options.layer_end - options.layer_begin, options.n_sessions, dims.n_kv_heads, options.context, dims.head_dim});
  if (!kv) return fail(kv.error());
  return std::unique_ptr<stage>(new stage(std::move(weights), options, ops, pool, std::move(*kv)));
}

stage::stage(std::shared_ptr<const checkpoint> weights, const stage_options& options, const kernels::cpu::ops& ops,
             kernels::cpu::worker_pool& pool, kv_cache kv)
    : weights_(std::move(weights)), options_(options), dims_(weights_->dims()), ops_(ops), pool_(pool), kv_(std::move(kv)) {
  const std::uint32_t rows = limits::window_rows_max;
  const std::uint32_t pairs = rows * dims_.top_k;
  const std::uint32_t layers = options.layer_end - options.layer_begin;
  normed_.resize(rows, dims_.d_model);
  q_.resize(std::size_t{rows} * dims_.n_heads * dims_.head_dim);
  k_.resize(std::size_t{rows} * dims_.n_kv_heads * dims_.head_dim);
  v_.resize(k_.size());
  attended_.resize(rows, dims_.n_heads * dims_.head_dim);
  projected_.resize(std::size_t{rows} * dims_.d_model);
  cos_.resize(std::size_t{rows} * dims_.head_dim / 2);
  sin_.resize(cos_.size());
  scores_.resize(std::size_t{pool_.n_threads()} * options.context);
  router_logits_.resize(std::size_t{rows} * dims_.n_experts);
  picked_.resize(std::size_t{layers} * pairs);
  pair_weight_.resize(pairs);
  gate_.resize(std::size_t{pairs} * dims_.d_ff);
  up_.resize(gate_.size());
  hidden_.resize(pairs, dims_.d_ff);
  expert_out_.resize(std::size_t{pairs} * dims_.d_model);
  pairs_.resize(pairs);
  pair_row_.resize(pairs);
  group_begin_.reserve(dims_.n_experts + 1);
  group_expert_.reserve(dims_.n_experts);
  jobs_.reserve(std::max<std::size_t>(dims_.n_experts, 3));
}

std::size_t stage::scratch_bytes() const noexcept {
  const std::size_t floats = q_.size() + k_.size() + v_.size() + projected_.size() + cos_.size() + sin_.size() + scores_.size() +
                             router_logits_.size() + pair_weight_.size() + gate_.size() + up_.size() + expert_out_.size();
  const std::size_t words = picked_.size() + pairs_.size() + pair_row_.size();
  return floats * sizeof(float) + words * sizeof(std::uint32_t) + normed_.size_bytes() + attended_.size_bytes() + hidden_.size_bytes();
}

void stage::embed(std::span<const token_id> tokens, float* x) const {
  EBB_ASSERT(tokens.size() <= limits::window_rows_max);
  const kernels::weights& table = weights_->token_embedding();
  for (token_id token : tokens) {
    EBB_ASSERT(token >= 0);
    EBB_ASSERT(static_cast<std::uint32_t>(token) < dims_.n_vocab);
    kernels::dequantize(table.type, table.data + static_cast<std::size_t>(token) * table.row_bytes(), dims_.d_model, x);
    x += dims_.d_model;
  }
}

void stage::run(std::span<const window_row> rows, const expert_table& experts, float* x) {
  EBB_ASSERT(!rows.empty());
  EBB_ASSERT(rows.size() <= limits::window_rows_max);
  EBB_ASSERT(experts.layer_begin() == options_.layer_begin);
  EBB_ASSERT(experts.layer_end() == options_.layer_end);
  const std::size_t half = dims_.head_dim / 2;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EBB_ASSERT(rows[i].session < options_.n_sessions);
    EBB_ASSERT(rows[i].position < options_.context);
    kernels::rope_angles(rows[i].position, dims_.rope_base, half, &cos_[i * half], &sin_[i * half]);
  }
  for (std::uint32_t layer = options_.layer_begin; layer < options_.layer_end; ++layer) {
    attend(layer, rows, x);
    feed_forward(layer, experts, static_cast<std::uint32_t>(rows.size()), x);
  }
}

std::span<const std::uint32_t> stage::picked(std::uint32_t layer, std::uint32_t row) const noexcept {
  EBB_DASSERT(layer >= options_.layer_begin);
  EBB_DASSERT(layer < options_.layer_end);
  const std::size_t first = (std::size_t{layer - options_.layer_begin} * limits::window_rows_max + row) * dims_.top_k;
  return {&picked_[first], dims_.top_k};
}

void stage::logits(const float* x, std::span<const std::uint32_t> rows, float* out) {
  EBB_ASSERT(rows.size() <= limits::window_rows_max);
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    ops_.rms_norm(x + std::size_t{rows[i]} * dims_.d_model, weights_->output_norm().data(), dims_.d_model, dims_.rms_eps, normed_.row(i));
    quantise_row(normed_, i, 0, dims_.d_model);
  }
  jobs_.assign(1, {.w = weights_->output(), .x = normed_.view(true), .n = static_cast<std::uint32_t>(rows.size()),
                   .row_end = dims_.n_vocab, .y = out, .y_stride = dims_.n_vocab});
  multiply(jobs_);
}

void stage::attend(std::uint32_t layer, std::span<const window_row> rows, float* x) {
  const layer_weights& weights = weights_->layer(layer);
  const auto n_rows = static_cast<std::uint32_t>(rows.size());
  normalise(x, weights.attn_norm, n_rows, normed_);
  project_qkv(weights, n_rows);
  turn_and_store(weights, layer, rows);

  const std::uint32_t head_dim = dims_.head_dim;
  const std::uint32_t group = dims_.n_heads / dims_.n_kv_heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  pool_.for_ranges(n_rows * dims_.n_heads, 1, [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
    for (std::uint32_t item = begin; item < end; ++item) {
      const std::uint32_t row = item / dims_.n_heads;
      const std::uint32_t head = item % dims_.n_heads;
      const auto [session, position] = rows[row];
      const std::uint32_t stage_layer = layer - options_.layer_begin;
      ops_.attention(&q_[std::size_t{item} * head_dim], kv_.k(stage_layer, session, head / group), kv_.v(stage_layer, session, head / group),
                     position + 1, head_dim, scale, &scores_[std::size_t{thread} * options_.context],
                     attended_.row(row) + std::size_t{head} * head_dim);
    }
  });
  for (std::uint32_t row = 0; row < n_rows; ++row) quantise_row(attended_, row, 0, attended_.n_cols);
  jobs_.assign(1, {.w = weights.attn_output, .x = attended_.view(), .n = n_rows, .row_end = dims_.d_model, .y = projected_.data(),
                   .y_stride = dims_.d_model});
  multiply(jobs_);
  ops_.add(projected_.data(), std::size_t{n_rows} * dims_.d_model, x);
}

void stage::project_qkv(const layer_weights& weights, std::uint32_t n_rows) {
  jobs_.clear();
  const auto project = [&](const kernels::weights& w, std::vector<float>& y) {
    jobs_.push_back({.w = w, .x = normed_.view(), .n = n_rows, .row_end = w.n_rows, .y = y.data(), .y_stride = w.n_rows});
  };
  project(weights.attn_q, q_);
  project(weights.attn_k, k_);
  project(weights.attn_v, v_);
  multiply(jobs_);
}

// Norm and rotation of q and k, then k and v as halves into the cache, where the rows of this very window find them too.
void stage::turn_and_store(const layer_weights& weights, std::uint32_t layer, std::span<const window_row> rows) {
  const std::uint32_t head_dim = dims_.head_dim;
  const std::uint32_t half = head_dim / 2;
  const std::uint32_t stage_layer = layer - options_.layer_begin;
  const auto turn = [&](float* head, const std::vector<float>& norm, std::uint32_t row) {
    if (!norm.empty()) ops_.rms_norm(head, norm.data(), head_dim, dims_.rms_eps, head);
    ops_.rope(head, &cos_[std::size_t{row} * half], &sin_[std::size_t{row} * half], half);
  };
  pool_.for_ranges(static_cast<std::uint32_t>(rows.size()), 4, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    for (std::uint32_t row = begin; row < end; ++row) {
      for (std::uint32_t head = 0; head < dims_.n_heads; ++head) {
        turn(&q_[(std::size_t{row} * dims_.n_heads + head) * head_dim], weights.attn_q_norm, row);
      }
      const auto [session, position] = rows[row];
      for (std::uint32_t head = 0; head < dims_.n_kv_heads; ++head) {
        const std::size_t from = (std::size_t{row} * dims_.n_kv_heads + head) * head_dim;
        const std::size_t to = std::size_t{position} * head_dim;
        turn(&k_[from], weights.attn_k_norm, row);
        ops_.to_half(&k_[from], head_dim, kv_.k(stage_layer, session, head) + to);
        ops_.to_half(&v_[from], head_dim, kv_.v(stage_layer, session, head) + to);
      }
    }
  });
}

void stage::feed_forward(std::uint32_t layer, const expert_table& experts, std::uint32_t n_rows, float* x) {
  const layer_weights& weights = weights_->layer(layer);
  normalise(x, weights.ffn_norm, n_rows, normed_);
  jobs_.assign(1, {.w = weights.router, .x = normed_.view(), .n = n_rows, .row_end = dims_.n_experts, .y = router_logits_.data(),
                   .y_stride = dims_.n_experts});
  multiply(jobs_);
  route_rows(layer, n_rows);
  group_by_expert(layer, n_rows);
  expert_hidden(layer, experts);
  expert_down(layer, experts);
  for (std::uint32_t row = 0; row < n_rows; ++row) {
    const std::size_t pair = std::size_t{row} * dims_.top_k;
    ops_.combine(&expert_out_[pair * dims_.d_model], dims_.d_model, &pair_weight_[pair], dims_.top_k, dims_.d_model, projected_.data());
    ops_.add(projected_.data(), dims_.d_model, x + std::size_t{row} * dims_.d_model);
  }
}

void stage::route_rows(std::uint32_t layer, std::uint32_t n_rows) {
  std::uint32_t* picks = &picked_[std::size_t{layer - options_.layer_begin} * limits::window_rows_max * dims_.top_k];
  for (std::uint32_t row = 0; row < n_rows; ++row) {
    const std::size_t pair = std::size_t{row} * dims_.top_k;
    kernels::route(&router_logits_[std::size_t{row} * dims_.n_experts], dims_.n_experts, dims_.top_k, picks + pair, &pair_weight_[pair]);
  }
}

// A counting sort of the window's pairs by expert, so that an expert's weights are read once for all its rows.
void stage::group_by_expert(std::uint32_t layer, std::uint32_t n_rows) {
  const std::uint32_t* picks = &picked_[std::size_t{layer - options_.layer_begin} * limits::window_rows_max * dims_.top_k];
  const std::uint32_t n_pairs = n_rows * dims_.top_k;
  group_expert_.clear();
  group_begin_.assign(dims_.n_experts + 1, 0);
  for (std::uint32_t pair = 0; pair < n_pairs; ++pair) ++group_begin_[picks[pair] + 1];
  for (std::uint32_t expert = 0; expert < dims_.n_experts; ++expert) group_begin_[expert + 1] += group_begin_[expert];
  for (std::uint32_t pair = 0; pair < n_pairs; ++pair) {
    const std::uint32_t place = group_begin_[picks[pair]]++;
    pairs_[place] = pair;
    pair_row_[place] = pair / dims_.top_k;
  }
  // group_begin_[e] is now the end of e's pairs; keep the begins of the experts that have any, and the end of the last.
  std::uint32_t n_groups = 0;
  std::uint32_t begin = 0;
  for (std::uint32_t expert = 0; expert < dims_.n_experts; ++expert) {
    const std::uint32_t end = group_begin_[expert];
    if (end == begin) continue;
    group_expert_.push_back(expert);
    group_begin_[n_groups++] = begin;
    begin = end;
  }
  group_begin_[n_groups] = n_pairs;
}

// hidden[pair] = silu(gate h) * (up h), quantised. A chunk is a range of output blocks of one expert, so that gate, up, the product
// and its quantisation are one region.
void stage::expert_hidden(std::uint32_t layer, const expert_table& experts) {
  const layer_formats& formats = weights_->experts().formats(layer);
  const std::uint32_t blocks = dims_.d_ff / activation_block;
  const auto n_groups = static_cast<std::uint32_t>(group_expert_.size());
  const auto compute = [&](std::uint32_t group, std::uint32_t col_begin, std::uint32_t col_end) {
    const expert_table::entry& expert = experts.at({layer, group_expert_[group]});
    const std::uint32_t first = group_begin_[group];
    const std::uint32_t n = group_begin_[group + 1] - first;
    kernels::matmul_job job{.w = {expert.matrix[0], formats[0], dims_.d_ff, dims_.d_model}, .x = normed_.view(), .x_row = &pair_row_[first],
                            .y_row = &pairs_[first], .n = n, .row_begin = col_begin, .row_end = col_end, .y = gate_.data(),
                            .y_stride = dims_.d_ff};
    ops_.matmul(job);
    job.w.data = expert.matrix[1];
    job.w.type = formats[1];
    job.y = up_.data();
    ops_.matmul(job);
    for (std::uint32_t i = first; i < first + n; ++i) {
      const std::size_t at = std::size_t{pairs_[i]} * dims_.d_ff + col_begin;
      ops_.swiglu(&gate_[at], &up_[at], col_end - col_begin, &hidden_.x[at]);
      quantise_row(hidden_, pairs_[i], col_begin, col_end);
    }
  };
  pool_.for_ranges(n_groups * blocks, 1, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    while (begin < end) {
      const std::uint32_t group = begin / blocks;
      const std::uint32_t stop = std::min(end, (group + 1) * blocks);
      compute(group, (begin - group * blocks) * activation_block, (stop - group * blocks) * activation_block);
      begin = stop;
    }
  });
}

void stage::expert_down(std::uint32_t layer, const expert_table& experts) {
  const kernels::format type = weights_->experts().formats(layer)[2];
  jobs_.clear();
  for (std::uint32_t group = 0; group < group_expert_.size(); ++group) {
    const std::uint32_t first = group_begin_[group];
    jobs_.push_back({.w = {experts.at({layer, group_expert_[group]}).matrix[2], type, dims_.d_model, dims_.d_ff}, .x = hidden_.view(),
                     .x_row = &pairs_[first], .y_row = &pairs_[first], .n = group_begin_[group + 1] - first, .row_end = dims_.d_model,
                     .y = expert_out_.data(), .y_stride = dims_.d_model});
  }
  multiply(jobs_);
}

void stage::normalise(const float* x, const std::vector<float>& weight, std::uint32_t n_rows, row_buffer& out) {
  for (std::uint32_t row = 0; row < n_rows; ++row) {
    ops_.rms_norm(x + std::size_t{row} * dims_.d_model, weight.data(), dims_.d_model, dims_.rms_eps, out.row(row));
    quantise_row(out, row, 0, dims_.d_model);
  }
}

void stage::quantise_row(row_buffer& rows, std::uint32_t row, std::uint32_t col_begin, std::uint32_t col_end) {
  const std::size_t at = std::size_t{row} * rows.n_cols + col_begin;
  const std::size_t block = at / activation_block;
  const std::size_t n_values = col_end - col_begin;
  const auto quantise = [&](const float* x, row_buffer::quantised& into) {
    ops_.quantize(x, n_values, &into.q[at], &into.d[block], &into.sum[block]);
  };
  quantise(&rows.x[at], rows.part[0]);
  ops_.residual(&rows.x[at], &rows.part[0].q[at], &rows.part[0].d[block], n_values, &rows.left_over[at]);
  quantise(&rows.left_over[at], rows.part[1]);
}

void stage::multiply(std::span<const kernels::matmul_job> jobs) {
  std::uint32_t n_rows = 0;
  for (const auto& job : jobs) n_rows += job.row_end;
  pool_.for_ranges(n_rows, weight_rows_per_claim, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    std::uint32_t first = 0;  // where this job's rows begin when all are laid end to end
    for (kernels::matmul_job job : jobs) {
      const std::uint32_t last = first + job.row_end;
      if (begin < last && end > first) {
        job.row_begin = std::max(begin, first) - first;
        job.row_end = std::min(end, last) - first;
        ops_.matmul(job);
      }
      first = last;
    }
  });
}

}  // namespace ebb::model

#include "model/expert_worker.hpp"
#include "config/assert.hpp"
#include "kernels/cpu/shared_matmul.hpp"
#include <algorithm>

namespace ebb::model {

using kernels::activation_block;

expert_worker::expert_worker(const shape& dims, std::uint32_t pairs_max, const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool)
    : ops_(ops), pool_(pool), d_model_(dims.d_model), d_ff_(dims.d_ff), n_experts_(dims.n_experts), hidden_(pairs_max, dims.d_ff) {
  gate_.resize(std::size_t{pairs_max} * d_ff_);
  up_.resize(gate_.size());
  places_.resize(pairs_max);
  rows_.resize(pairs_max);
  group_begin_.reserve(n_experts_ + 1);
  group_expert_.reserve(n_experts_);
  jobs_.reserve(n_experts_);
}

void expert_worker::compute(std::span<const expert_pair> pairs, const layer_experts& experts, const kernels::activations& x, float* out) {
  EBB_ASSERT(!pairs.empty());
  EBB_ASSERT(pairs.size() <= places_.size());
  EBB_ASSERT(experts.entries.size() == n_experts_);
  group_by_expert(pairs);
  gate_and_up(experts, x);
  down(experts, out);
}

// A counting sort.
void expert_worker::group_by_expert(std::span<const expert_pair> pairs) {
  const auto n_pairs = static_cast<std::uint32_t>(pairs.size());
  group_expert_.clear();
  group_begin_.assign(n_experts_ + 1, 0);
  for (const expert_pair& pair : pairs) {
    EBB_ASSERT(pair.expert < n_experts_);
    ++group_begin_[pair.expert + 1];
  }
  for (std::uint32_t expert = 0; expert < n_experts_; ++expert) group_begin_[expert + 1] += group_begin_[expert];
  for (std::uint32_t i = 0; i < n_pairs; ++i) {
    const std::uint32_t sorted = group_begin_[pairs[i].expert]++;
    places_[sorted] = i;
    rows_[sorted] = pairs[i].row;
  }
  // group_begin_[e] is now the end of e's pairs; keep the begins of the experts that have any, and the end of the last.
  std::uint32_t n_groups = 0;
  std::uint32_t begin = 0;
  for (std::uint32_t expert = 0; expert < n_experts_; ++expert) {
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
void expert_worker::gate_and_up(const layer_experts& experts, const kernels::activations& x) {
  const std::uint32_t blocks = d_ff_ / activation_block;
  const auto n_groups = static_cast<std::uint32_t>(group_expert_.size());
  const auto compute_columns = [&](std::uint32_t group, std::uint32_t col_begin, std::uint32_t col_end) {
    const kernels::expert_entry& expert = experts.entries[group_expert_[group]];
    const std::uint32_t first = group_begin_[group];
    const std::uint32_t n = group_size(group);
    kernels::matmul_job job{.w = {expert.matrix[0], experts.formats[0], d_ff_, d_model_}, .x = x, .x_row = &rows_[first],
                            .y_row = &places_[first], .n = n, .row_begin = col_begin, .row_end = col_end, .y = gate_.data(),
                            .y_stride = d_ff_};
    ops_.matmul(job);
    job.w.data = expert.matrix[1];
    job.w.type = experts.formats[1];
    job.y = up_.data();
    ops_.matmul(job);
    for (std::uint32_t i = first; i < first + n; ++i) {
      const std::size_t at = std::size_t{places_[i]} * d_ff_ + col_begin;
      ops_.swiglu(&gate_[at], &up_[at], col_end - col_begin, hidden_.row(places_[i]) + col_begin);
      hidden_.quantise(ops_, places_[i], col_begin, col_end);
    }
  };
  pool_.for_ranges(n_groups * blocks, 1, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    while (begin < end) {
      const std::uint32_t group = begin / blocks;
      const std::uint32_t stop = std::min(end, (group + 1) * blocks);
      compute_columns(group, (begin - group * blocks) * activation_block, (stop - group * blocks) * activation_block);
      begin = stop;
    }
  });
}

void expert_worker::down(const layer_experts& experts, float* out) {
  jobs_.clear();
  for (std::uint32_t group = 0; group < group_expert_.size(); ++group) {
    const std::uint32_t first = group_begin_[group];
    jobs_.push_back({.w = {experts.entries[group_expert_[group]].matrix[2], experts.formats[2], d_model_, d_ff_}, .x = hidden_.view(),
                     .x_row = &places_[first], .y_row = &places_[first], .n = group_size(group), .row_end = d_model_, .y = out,
                     .y_stride = d_model_});
  }
  kernels::cpu::multiply(ops_, pool_, jobs_);
}

}  // namespace ebb::model

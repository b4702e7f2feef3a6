#include "model/stage.hpp"
#include "config/assert.hpp"
#include "kernels/dequantize.hpp"
#include <algorithm>
#include <utility>

namespace ebb::model {

stage::stage(std::shared_ptr<const checkpoint> weights, const stage_options& options)
    : weights_(std::move(weights)), options_(options), dims_(weights_->dims()) {
  EBB_ASSERT(options_.layer_begin < options_.layer_end);
  EBB_ASSERT(options_.layer_end <= dims_.n_layers);
  if (options_.sampled_max == 0) options_.sampled_max = options_.n_sessions;
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

result<void> stage::run(std::span<const window_row> rows, std::span<const std::uint32_t> sampled, const expert_table& experts, float* x,
                        window_hints hints) {
  EBB_ASSERT(!rows.empty());
  EBB_ASSERT(rows.size() <= limits::window_rows_max);
  EBB_ASSERT(experts.layer_begin() == options_.layer_begin);
  EBB_ASSERT(experts.layer_end() == options_.layer_end);
  for (const window_row& row : rows) {
    EBB_ASSERT(row.session < options_.n_sessions);
    EBB_ASSERT(row.position < options_.context);
  }
  if (!has_output_head()) sampled = {};
  EBB_ASSERT(sampled.size() <= options_.sampled_max);
  EBB_ASSERT(std::ranges::is_sorted(sampled));
  EBB_ASSERT(sampled.empty() || sampled.back() < rows.size());
  EBB_ASSERT(!hints.fast_path || experts.resident());
  return do_run(rows, sampled, experts, x, hints);
}

}  // namespace ebb::model

#include "tools/whole_model.hpp"
#include "config/limits.hpp"
#include "model/host_stage.hpp"
#include <algorithm>
#include <numeric>
#include <string>

namespace ebb::tools {

whole_model::whole_model(std::shared_ptr<const model::checkpoint> weights, unsigned n_threads)
    : weights_(std::move(weights)), pool_(n_threads), experts_(weights_->experts(), 0, weights_->dims().n_layers) {}

result<std::unique_ptr<whole_model>> whole_model::make(std::shared_ptr<const model::checkpoint> weights, kernels::cpu::isa isa,
                                                       unsigned n_threads, std::uint32_t context) {
  std::unique_ptr<whole_model> made(new whole_model(weights, n_threads));
  const model::stage_options all{0, weights->dims().n_layers, 1, context, limits::prompt_chunk_rows};
  auto stage = model::host_stage::make(std::move(weights), all, kernels::cpu::ops_for(isa), made->pool_);
  if (!stage) return fail(stage.error());
  made->stage_ = std::move(*stage);
  return made;
}

result<void> whole_model::run(std::span<const token_id> ids, const row_fn& row) {
  const model::shape& dims = weights_->dims();
  if (ids.size() > stage_->options().context) {
    return fail(errc::too_large, std::to_string(ids.size()) + " ids do not fit into a context of " + std::to_string(stage_->options().context));
  }
  for (const token_id id : ids) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < dims.n_vocab) continue;
    return fail(errc::bad_value, "id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(dims.n_vocab) + " tokens");
  }
  const std::size_t chunk_rows = limits::prompt_chunk_rows;
  std::vector<float> x(chunk_rows * dims.d_model);
  std::vector<std::uint32_t> numbers(chunk_rows);
  std::iota(numbers.begin(), numbers.end(), 0u);
  for (std::size_t first = 0; first < ids.size(); first += chunk_rows) {
    const std::size_t n_rows = std::min(chunk_rows, ids.size() - first);
    std::vector<model::window_row> rows;
    for (std::size_t i = 0; i < n_rows; ++i) rows.push_back({0, static_cast<std::uint32_t>(first + i)});
    stage_->embed(ids.subspan(first, n_rows), x.data());
    if (auto ran = stage_->run(rows, std::span(numbers).first(n_rows), experts_, x.data()); !ran) return ran;
    for (std::size_t i = 0; i < n_rows; ++i) row(stage_->logits().subspan(i * dims.n_vocab, dims.n_vocab));
  }
  return {};
}

}  // namespace ebb::tools

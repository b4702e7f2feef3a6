// tools/whole_model.hpp: all layers of a model as one stage without a cache, for oracles: token ids in, logits out.
#pragma once
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include "model/stage.hpp"
#include <functional>
#include <memory>
#include <span>

namespace ebb::tools {

class whole_model {
 public:
  // Errors: those of model::host_stage::make.
  static result<std::unique_ptr<whole_model>> make(std::shared_ptr<const model::checkpoint> weights, kernels::cpu::isa isa, unsigned n_threads,
                                                   std::uint32_t context);

  // Called for each position in order, with its logits [n_vocab].
  using row_fn = std::function<void(std::span<const float>)>;

  // Runs ids from position 0. Errors: too_large (more than the context), bad_value (an id outside the vocabulary), those of model::stage::run.
  result<void> run(std::span<const token_id> ids, const row_fn& row);

  const model::stage& stage() const noexcept { return *stage_; }

 private:
  whole_model(std::shared_ptr<const model::checkpoint> weights, unsigned n_threads);

  std::shared_ptr<const model::checkpoint> weights_;
  kernels::cpu::worker_pool pool_;
  model::expert_table experts_;
  std::unique_ptr<model::stage> stage_;
};

}  // namespace ebb::tools

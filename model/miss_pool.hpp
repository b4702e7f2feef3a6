// model/miss_pool.hpp: the CPU threads that compute a GPU stage's misses, with the experts that the store has.
//
// What a call costs beside the products themselves is a few microseconds: the threads of the pool spin from one layer's misses to the next.
// Memory is taken when it is made. One thread at a time: the one that runs the stage.
#pragma once
#include "kernels/gpu.hpp"
#include "model/catalog.hpp"
#include "model/expert_table.hpp"
#include "model/expert_worker.hpp"

namespace ebb::model {

class miss_pool final : public kernels::miss_pool {
 public:
  // For the layers [layer_begin, layer_end) of a stage. `store` holds their experts in memory that the CPU reads; it, `ops` and `pool` must
  // outlive this.
  miss_pool(const catalog& store, const shape& dims, std::uint32_t layer_begin, std::uint32_t layer_end, const kernels::cpu::ops& ops,
            kernels::cpu::worker_pool& pool);

  void compute(std::uint32_t layer, std::span<const kernels::miss> misses, const kernels::activations& x, float* out) override;

 private:
  const catalog& store_;
  std::uint32_t d_model_;
  expert_table in_store_;
  expert_worker worker_;
};

}  // namespace ebb::model

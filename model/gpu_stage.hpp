// model/gpu_stage.hpp: the stage that a GPU computes: what a card knows of its layers, in the words of kernels/gpu.hpp.
#pragma once
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include "model/expert_store.hpp"
#include "model/miss_pool.hpp"
#include "model/stage.hpp"
#include <memory>

namespace ebb::model {

// What a GPU is told of layers [layer_begin, layer_end); it points into `weights`. Pre: sampled_max is filled in.
kernels::stage_description describe_stage(const checkpoint& weights, const stage_options& options);

class gpu_stage final : public stage {
 public:
  // Uploads the dense weights. `store` holds the experts of these layers; misses that the GPU leaves to the CPU are computed from it, by
  // `ops` and the threads of `pool`, which must outlive the stage. Errors: those of kernels::gpu::make_stage.
  static result<std::unique_ptr<gpu_stage>> make(std::shared_ptr<const checkpoint> weights, const stage_options& options,
                                                 std::shared_ptr<const expert_store> store, std::shared_ptr<kernels::gpu> gpu,
                                                 const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool);

  std::span<const std::uint32_t> picked(std::uint32_t layer, std::uint32_t row) const noexcept override;
  std::span<const float> logits() const noexcept override { return on_gpu_->logits(); }

  // Does nothing: keys and values stay allocated on a GPU.
  void forget(std::uint32_t) noexcept override {}

  const kernels::window_timing& timing() const noexcept { return on_gpu_->timing(); }  // of the last run
  std::uint64_t misses_on_cpu(std::uint64_t) const noexcept override { return timing().misses_cpu; }
  std::uint64_t held_bytes() const noexcept override { return on_gpu_->held_bytes(); }
  std::uint32_t chunk_rows() const noexcept override { return on_gpu_->chunk_rows(); }

 private:
  gpu_stage(std::shared_ptr<const checkpoint> weights, const stage_options& options, std::shared_ptr<const expert_store> store,
            std::shared_ptr<kernels::gpu> gpu, const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool);

  result<void> do_run(std::span<const window_row> rows, std::span<const std::uint32_t> sampled, const expert_table& experts, float* x,
                      window_hints hints) override;

  std::shared_ptr<const expert_store> store_;
  miss_pool misses_;
  std::shared_ptr<kernels::gpu> gpu_;
  std::unique_ptr<kernels::gpu_stage> on_gpu_;  // ends before what it uses
};

}  // namespace ebb::model

// tests/model/support/host_gpu.hpp: a GPU whose stages a host stage computes, from what the interface hands over.
#pragma once
#include "kernels/gpu.hpp"
#include "model/host_stage.hpp"
#include <catch2/catch.hpp>

namespace ebb::model::test {

// What the stages of a host_gpu do and have seen.
struct host_gpu_state {
  std::optional<error> refusal;   // of make_stage
  std::optional<error> failure;   // of run
  std::vector<std::vector<kernels::expert_entry>> chosen_by;  // what each choose_ways was given
  std::optional<kernels::stage_window> last;  // its spans end with the call
  kernels::miss_pool* misses = nullptr;
};

class host_gpu_stage final : public kernels::gpu_stage {
 public:
  host_gpu_stage(std::unique_ptr<stage> by, const catalog& store, host_gpu_state& state) : by_(std::move(by)), store_(store), state_(state) {}

  result<void> choose_ways(std::span<const kernels::expert_entry> experts) override {
    state_.chosen_by.emplace_back(experts.begin(), experts.end());
    if (state_.failure) return fail(*state_.failure);
    return {};
  }
  result<void> run(const kernels::stage_window& what, float* x) override {
    state_.last = what;
    if (state_.failure) return fail(*state_.failure);
    return by_->run(what.rows, what.sampled, table_of(what.experts), x);
  }
  std::span<const std::uint32_t> picked(std::uint32_t layer, std::uint32_t row) const noexcept override {
    return by_->picked(by_->options().layer_begin + layer, row);
  }
  std::span<const float> logits() const noexcept override { return by_->logits(); }
  const kernels::window_timing& timing() const noexcept override { return timing_; }
  std::uint64_t held_bytes() const noexcept override { return 12345; }
  std::uint32_t chunk_rows() const noexcept override { return limits::window_rows_max; }
  std::uint32_t graphs() const noexcept override { return 0; }

 private:
  // A table of the same entries, each of which must be a slot or the store.
  expert_table table_of(std::span<const kernels::expert_entry> entries) const {
    expert_table table(store_, by_->options().layer_begin, by_->options().layer_end);
    REQUIRE(entries.size() == table.entries().size());
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
      const expert_id expert{by_->options().layer_begin + i / store_.n_experts(), i % store_.n_experts()};
      if (entries[i].in_slot) table.place(expert, entries[i].matrix[0]);
      REQUIRE(table.at(expert).matrix == entries[i].matrix);
    }
    return table;
  }

  std::unique_ptr<stage> by_;
  const catalog& store_;
  host_gpu_state& state_;
  kernels::window_timing timing_;
};

class host_gpu final : public kernels::gpu {
 public:
  host_gpu_state state;

  // Of a stage that begins at layer_begin, which the interface does not tell a GPU.
  host_gpu(std::shared_ptr<const checkpoint> weights, std::uint32_t layer_begin, const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool)
      : weights_(std::move(weights)), layer_begin_(layer_begin), ops_(ops), pool_(pool) {}

  const kernels::gpu_description& about() const noexcept override { return about_; }
  result<kernels::memory_figures> memory() const override { return kernels::memory_figures{}; }
  result<std::unique_ptr<kernels::arena>> make_arena(kernels::segment_layout) override { return fail(errc::card_lost, "it has no arena"); }
  result<void> pin(void*, std::size_t) override { return {}; }
  void unpin(void*) noexcept override {}

  result<std::unique_ptr<kernels::gpu_stage>> make_stage(const kernels::stage_description& what, kernels::miss_pool& misses) override {
    if (state.refusal) return fail(*state.refusal);
    state.misses = &misses;
    const kernels::stage_shape& of = what.shape;
    auto by = host_stage::make(weights_, {layer_begin_, layer_begin_ + of.n_layers, of.n_sessions, of.context, of.sampled_max}, ops_, pool_);
    if (!by) return fail(by.error());
    return std::make_unique<host_gpu_stage>(std::move(*by), weights_->experts(), state);
  }

 private:
  std::shared_ptr<const checkpoint> weights_;
  std::uint32_t layer_begin_;
  const kernels::cpu::ops& ops_;
  kernels::cpu::worker_pool& pool_;
  kernels::gpu_description about_;
};

}  // namespace ebb::model::test

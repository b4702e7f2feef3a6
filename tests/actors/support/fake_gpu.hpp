// tests/actors/support/fake_gpu.hpp: a driver with GPUs of a simulation: their memory is accounted for, their caches are failing_arenas,
// and their stages pick experts and tokens by rules that a test can foresee instead of computing anything.
#pragma once
#include "failing_arena.hpp"
#include "kernels/gpu.hpp"
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ebb::actors::test {

struct fake_gpu_state {
  kernels::gpu_description about;
  shared_device memory;
  std::uint64_t context_bytes = 0;  // that opening it takes
  std::uint64_t stage_bytes = 0;    // that each stage takes
  std::optional<error> failure;     // of every window from now on
  std::uint32_t misses_cpu = 0;     // that it says the CPU computed, of each window
  std::function<void()> before_window;  // may take as long as the test likes; empty: nothing
  int opened = 0;
  std::atomic<int> pinned = 0;
  std::mutex mutex;                        // two cards may be on one GPU, each with its thread
  std::vector<std::size_t> windows;        // their rows
  std::vector<bool> windows_resident;      // whether they ran on the fast path
};

// Row r of layer l (of the stage) picks the top_k experts from (position + l) on. The likeliest token is 'a' plus the position.
class fake_gpu_stage final : public kernels::gpu_stage {
 public:
  fake_gpu_stage(std::shared_ptr<fake_gpu_state> gpu, const kernels::stage_shape& shape) : gpu_(std::move(gpu)), shape_(shape) {
    gpu_->memory.others_bytes += gpu_->stage_bytes;
  }
  ~fake_gpu_stage() override { gpu_->memory.others_bytes -= gpu_->stage_bytes; }

  result<void> run(const kernels::stage_window& what, float*) override {
    if (gpu_->before_window) gpu_->before_window();
    if (gpu_->failure) return fail(*gpu_->failure);
    {
      const std::lock_guard one_at_a_time(gpu_->mutex);
      gpu_->windows.push_back(what.rows.size());
      gpu_->windows_resident.push_back(what.resident);
    }
    n_rows_ = what.rows.size();
    timing_.misses_cpu = gpu_->misses_cpu;
    picked_.clear();
    for (std::uint32_t layer = 0; layer < shape_.n_layers; ++layer) {
      for (const kernels::window_row& row : what.rows) {
        for (std::uint32_t rank = 0; rank < shape_.top_k; ++rank) picked_.push_back((row.position + layer + rank) % shape_.n_experts);
      }
    }
    logits_.assign(what.sampled.size() * shape_.n_vocab, 0.0F);
    for (std::size_t i = 0; i < what.sampled.size(); ++i) {
      logits_[i * shape_.n_vocab + ('a' + what.rows[what.sampled[i]].position) % shape_.n_vocab] = 1;
    }
    return {};
  }

  std::span<const std::uint32_t> picked(std::uint32_t layer, std::uint32_t row) const noexcept override {
    return std::span(picked_).subspan((layer * n_rows_ + row) * shape_.top_k, shape_.top_k);
  }
  std::span<const float> logits() const noexcept override { return logits_; }
  const kernels::window_timing& timing() const noexcept override { return timing_; }
  std::uint64_t held_bytes() const noexcept override { return gpu_->stage_bytes; }
  std::uint32_t chunk_rows() const noexcept override { return shape_.rows_max; }
  std::uint32_t graphs() const noexcept override { return 0; }

 private:
  std::shared_ptr<fake_gpu_state> gpu_;
  kernels::stage_shape shape_;
  std::size_t n_rows_ = 0;
  std::vector<std::uint32_t> picked_;
  std::vector<float> logits_;
  kernels::window_timing timing_;
};

class fake_gpu final : public kernels::gpu {
 public:
  explicit fake_gpu(std::shared_ptr<fake_gpu_state> state) : state_(std::move(state)) {
    ++state_->opened;
    state_->memory.others_bytes += state_->context_bytes;
  }
  ~fake_gpu() override { state_->memory.others_bytes -= state_->context_bytes; }

  const kernels::gpu_description& about() const noexcept override { return state_->about; }
  result<kernels::memory_figures> memory() const override {
    return kernels::memory_figures{state_->memory.free_bytes(), state_->memory.size_bytes};
  }
  result<std::unique_ptr<kernels::arena>> make_arena(kernels::segment_layout layout) override {
    return std::make_unique<failing_arena>(layout, &state_->memory);
  }
  result<std::unique_ptr<kernels::gpu_stage>> make_stage(const kernels::stage_description& what, kernels::miss_pool&) override {
    if (state_->memory.free_bytes() < state_->stage_bytes) return fail(errc::out_of_memory, "no room for the stage");
    return std::make_unique<fake_gpu_stage>(state_, what.shape);
  }
  result<void> pin(void*, std::size_t) override {
    ++state_->pinned;
    return {};
  }
  void unpin(void*) noexcept override { --state_->pinned; }

 private:
  std::shared_ptr<fake_gpu_state> state_;
};

class fake_gpu_driver final : public kernels::gpu_driver {
 public:
  // GPUs of so many MiB each.
  explicit fake_gpu_driver(const std::vector<std::uint32_t>& sizes_mib) {
    for (const std::uint32_t size_mib : sizes_mib) {
      auto state = std::make_shared<fake_gpu_state>();
      const auto number = static_cast<std::uint32_t>(gpus.size());
      state->about = {number, "Fake GPU", "0000:1" + std::to_string(number) + ":00.0", "GPU-fake-" + std::to_string(number),
                      std::uint64_t{size_mib} << 20, std::nullopt};
      state->memory.size_bytes = state->about.total_bytes;
      gpus.push_back(std::move(state));
    }
  }

  result<std::vector<kernels::gpu_description>> list() const override {
    std::vector<kernels::gpu_description> all;
    for (const auto& gpu : gpus) {
      all.push_back(gpu->about);
      if (has_nvml) all.back().free_bytes = gpu->memory.free_bytes();
    }
    return all;
  }
  result<std::shared_ptr<kernels::gpu>> open(std::uint32_t number) const override {
    if (number >= gpus.size()) return fail(errc::unknown_device, "there is no GPU " + std::to_string(number));
    return std::make_shared<fake_gpu>(gpus[number]);
  }

  std::vector<std::shared_ptr<fake_gpu_state>> gpus;
  bool has_nvml = true;  // else only a context tells what is free
};

}  // namespace ebb::actors::test

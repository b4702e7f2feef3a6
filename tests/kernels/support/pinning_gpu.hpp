// tests/kernels/support/pinning_gpu.hpp: a GPU that can only pin, and remembers what is pinned; or refuses to.
#pragma once
#include "kernels/gpu.hpp"
#include <map>

namespace ebb::kernels::test {

class pinning_gpu final : public gpu {
 public:
  std::map<void*, std::size_t> pinned;
  std::optional<error> refusal;

  const gpu_description& about() const noexcept override { return about_; }
  result<memory_figures> memory() const override { return fail(errc::card_lost, "it can only pin"); }
  result<std::unique_ptr<arena>> make_arena(segment_layout) override { return fail(errc::card_lost, "it can only pin"); }
  result<std::unique_ptr<gpu_stage>> make_stage(const stage_description&, miss_pool&) override { return fail(errc::card_lost, "it can only pin"); }

  result<void> pin(void* base, std::size_t size) override {
    if (refusal) return fail(*refusal);
    pinned[base] = size;
    return {};
  }
  void unpin(void* base) noexcept override { pinned.erase(base); }

 private:
  gpu_description about_;
};

}  // namespace ebb::kernels::test

// kernels/cuda/module.cpp: what libebb_cuda.so exports: kernels/gpu.hpp for NVIDIA's GPUs.
#include "kernels/cuda/check.hpp"
#include "kernels/cuda/descriptions.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/stage.hpp"
#include "kernels/gpu_module.hpp"
#include "kernels/memory/cuda_arena.hpp"
#include <cstdlib>

namespace ebb::kernels::cuda {
namespace {

// The operating system's refusal to lock memory, which says nothing of the GPU.
bool is_of_system(cudaError_t outcome) {
  return outcome == cudaErrorOperatingSystem || outcome == cudaErrorNotPermitted || outcome == cudaErrorNotSupported;
}

class opened_gpu final : public gpu {
 public:
  opened_gpu(std::shared_ptr<const device> on, gpu_description about) : device_(std::move(on)), about_(std::move(about)) {}

  const gpu_description& about() const noexcept override { return about_; }
  result<memory_figures> memory() const override { return device_->memory(); }

  result<std::unique_ptr<arena>> make_arena(segment_layout layout) override {
    auto made = cuda_arena::create(device_, layout);
    if (!made) return fail(made.error());
    return std::unique_ptr<arena>(std::move(*made));
  }

  result<std::unique_ptr<gpu_stage>> make_stage(const stage_description& what, miss_pool& misses) override {
    auto made = stage::make(device_, what, misses);
    if (!made) return fail(made.error().code, "cuda:" + std::to_string(device_->number()) + ": " + made.error().text);
    return std::unique_ptr<gpu_stage>(std::move(*made));
  }

  result<void> pin(void* base, std::size_t size) override {
    if (auto current = check(cudaSetDevice(device_->number()), "no context"); !current) return current;
    const cudaError_t outcome = cudaHostRegister(base, size, cudaHostRegisterPortable | cudaHostRegisterMapped);
    auto pinned = check(outcome, "making " + std::to_string(size >> 20) + " MiB of memory readable by the GPU");
    if (!pinned && is_of_system(outcome)) return fail(errc::out_of_memory, pinned.error().text);
    return pinned;
  }

  void unpin(void* base) noexcept override {
    if (device_->given_up()) return;
    cudaSetDevice(device_->number());
    cudaHostUnregister(base);
  }

 private:
  std::shared_ptr<const device> device_;
  gpu_description about_;
};

class opened_driver final : public gpu_driver {
 public:
  explicit opened_driver(std::shared_ptr<const driver> api) : api_(std::move(api)) {}

  result<std::vector<gpu_description>> list() const override {
    std::vector<gpu_description> all;
    std::string too_old;
    for (int number = 0; number < api_->n_devices(); ++number) {
      const auto usable = is_new_enough(*api_, static_cast<std::uint32_t>(number));
      if (!usable) return fail(usable.error());
      auto said = describe(*api_, static_cast<std::uint32_t>(number));
      if (!said) return fail(said.error());
      if (*usable) all.push_back(std::move(*said));
      else too_old += (too_old.empty() ? "cuda:" : ", cuda:") + std::to_string(number) + " (" + said->name + ")";
    }
    if (all.empty()) return fail(errc::refused, "cuda: no GPU is new enough, compute capability 8.0 is needed: " + too_old + "; use another GPU, or host cards");
    read_free_memory(all);
    return all;
  }

  result<std::shared_ptr<gpu>> open(std::uint32_t number) const override {
    if (static_cast<int>(number) < api_->n_devices()) {
      const auto usable = is_new_enough(*api_, number);
      if (!usable) return fail(usable.error());
      if (!*usable) return fail(errc::unknown_device, "cuda:" + std::to_string(number) + " is too old: compute capability 8.0 is needed; use another GPU, or a host card");
    }
    auto on = device::open(api_, static_cast<int>(number));
    if (!on) return fail(on.error());
    auto about = describe(*api_, number);
    if (!about) return fail(about.error());
    return std::shared_ptr<gpu>(std::make_shared<opened_gpu>(*std::move(on), *std::move(about)));
  }

 private:
  std::shared_ptr<const driver> api_;
};

result<std::shared_ptr<gpu_driver>> open_module() {
  // All kernels are loaded with the context, not each when it is first used: what they take must be taken before a cache is sized.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  auto api = driver::load();
  if (!api) return fail(api.error());
  int runtime_version = 0;
  cudaRuntimeGetVersion(&runtime_version);
  if ((*api)->version() / 1000 < runtime_version / 1000) {
    return fail(errc::refused, "cuda: the driver speaks CUDA " + std::to_string((*api)->version() / 1000) + ", and this build needs " +
                                   std::to_string(runtime_version / 1000) + "; install a newer driver, or use host cards");
  }
  return std::shared_ptr<gpu_driver>(std::make_shared<opened_driver>(*std::move(api)));
}

}  // namespace
}  // namespace ebb::kernels::cuda

extern "C" {
__attribute__((visibility("default"))) std::uint32_t ebb_gpu_module_version() { return ebb::kernels::gpu_module_version; }
__attribute__((visibility("default"))) void ebb_gpu_module_open(ebb::kernels::gpu_module_result& out) { out.driver = ebb::kernels::cuda::open_module(); }
}

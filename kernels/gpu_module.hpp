// kernels/gpu_module.hpp: finds the module of a vendor beside the program and loads it, so that one binary starts on any machine.
#pragma once
#include "kernels/gpu.hpp"

namespace ebb::kernels {

// Grows with every change of kernels/gpu.hpp and of what it includes: a module of another build is refused.
inline constexpr std::uint32_t gpu_module_version = 1;

// What a module exports, under these names and with C linkage.
struct gpu_module_result {
  result<std::shared_ptr<gpu_driver>> driver;
};
using gpu_module_version_fn = std::uint32_t (*)();
using gpu_module_open_fn = void (*)(gpu_module_result& out);
inline constexpr const char* gpu_module_version_name = "ebb_gpu_module_version";
inline constexpr const char* gpu_module_open_name = "ebb_gpu_module_open";

// Loads libebb_cuda.so, from beside the program (or ../lib of it), else as the system finds it, and starts the driver. The module stays loaded.
// Errors: unknown_device: "cuda: no driver" and why (no module, no driver, no GPU), with the way out.
result<std::shared_ptr<gpu_driver>> load_cuda_module();

}  // namespace ebb::kernels

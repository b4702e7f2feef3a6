// kernels/gpu_module.hpp: finds the module of a vendor beside the program and loads it, so that one binary starts on any machine.
#pragma once
#include "kernels/gpu.hpp"
#include <filesystem>
#include <span>
#include <vector>

namespace ebb::kernels {

// Grows with every change of kernels/gpu.hpp and of what it includes: a module of another build is refused.
inline constexpr std::uint32_t gpu_module_version = 3;

// What a module exports, under these names and with C linkage.
struct gpu_module_result {
  result<std::shared_ptr<gpu_driver>> driver;
};
using gpu_module_version_fn = std::uint32_t (*)();
using gpu_module_open_fn = void (*)(gpu_module_result& out);
inline constexpr const char* gpu_module_version_name = "ebb_gpu_module_version";
inline constexpr const char* gpu_module_open_name = "ebb_gpu_module_open";

inline constexpr const char* cuda_module_name = "libebb_cuda.so";

// Where the CUDA module may lie, in the order in which it is looked for: beside the program, in ../lib and ../lib/ebb of it, in the build
// tree, and at last, as a plain name, where the system looks.
std::vector<std::filesystem::path> cuda_module_places();

// Loads the module from the first of these places where there is a file, and starts the driver. The module stays loaded.
// Errors: unknown_device (nothing is here: no module, no driver, no GPU); refused (something is here and does not work: a file that is no module of
// this build, a driver that is too old or does not start); each "cuda: no driver" and why, with the way out; those of the module.
result<std::shared_ptr<gpu_driver>> load_gpu_module(std::span<const std::filesystem::path> places);
result<std::shared_ptr<gpu_driver>> load_cuda_module();  // from cuda_module_places()

}  // namespace ebb::kernels

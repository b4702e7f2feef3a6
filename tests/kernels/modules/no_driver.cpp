// A module on a machine without a GPU.
#include "kernels/gpu_module.hpp"

extern "C" std::uint32_t ebb_gpu_module_version() { return ebb::kernels::gpu_module_version; }
extern "C" void ebb_gpu_module_open(ebb::kernels::gpu_module_result& out) {
  out.driver = ebb::fail(ebb::errc::unknown_device, "cuda: no driver (this module never has one)");
}

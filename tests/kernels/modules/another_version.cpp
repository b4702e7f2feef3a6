// A module of a build to come, which must not be asked for more than its version.
#include "kernels/gpu_module.hpp"
#include <cstdlib>

extern "C" std::uint32_t ebb_gpu_module_version() { return ebb::kernels::gpu_module_version + 1; }
extern "C" void ebb_gpu_module_open(ebb::kernels::gpu_module_result&) { std::abort(); }

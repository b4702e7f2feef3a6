// kernels/cuda/descriptions.hpp: what can be said of a GPU without a context on it, which would take memory.
#pragma once
#include "kernels/cuda/driver.hpp"
#include "kernels/gpu.hpp"

namespace ebb::kernels::cuda {

// Whether our kernels run on it: they need compute capability 8.0, for its integer matrix units and copies to shared memory. Errors: card_lost.
result<bool> is_new_enough(const driver& api, std::uint32_t number);

// Errors: card_lost.
result<gpu_description> describe(const driver& api, std::uint32_t number);

// What NVML, which needs no context, says is free on each; as it was where there is no NVML or it does not know the GPU.
void read_free_memory(std::vector<gpu_description>& all);

}  // namespace ebb::kernels::cuda

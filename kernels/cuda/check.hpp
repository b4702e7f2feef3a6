// kernels/cuda/check.hpp: what a call of the CUDA runtime failed with, as a result.
#pragma once
#include "config/result.hpp"
#include <cuda_runtime.h>
#include <string>

namespace ebb::kernels::cuda {

// Nothing, or out_of_memory, else card_lost. `what` begins the text.
inline result<void> check(cudaError_t outcome, const std::string& what) {
  if (outcome == cudaSuccess) return {};
  const errc code = outcome == cudaErrorMemoryAllocation ? errc::out_of_memory : errc::card_lost;
  cudaGetLastError();  // else the next call that succeeds would report it again
  return fail(code, "cuda: " + what + ": " + cudaGetErrorString(outcome) + " (" + std::to_string(static_cast<int>(outcome)) + ")");
}

}  // namespace ebb::kernels::cuda

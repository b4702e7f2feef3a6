// kernels/cuda/upload.hpp: what a window needs of the host, brought to the GPU without the copy engine.
//
// The engine does one copy after the other whatever their streams are, so a few KiB would wait for all the experts that are on their way
// into the cache. A kernel reads pinned memory itself, beside them.
#pragma once
#include <cstddef>
#include <cuda_runtime.h>

namespace ebb::kernels::cuda {

// to[0, n_bytes) = from[0, n_bytes), in the order of `stream`. Pre: `from` is pinned host memory, and stays as it is until this has run; both at, and of, whole
// words of 4 bytes (asserts).
void upload(void* to, const void* from, std::size_t n_bytes, cudaStream_t stream);

}  // namespace ebb::kernels::cuda

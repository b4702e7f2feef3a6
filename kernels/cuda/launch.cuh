// kernels/cuda/launch.cuh: how kernels follow one another without a gap.
//
// A kernel is let in while the one before it still runs, and waits inside: every kernel of ours begins with begin_kernel(), and before that touches
// only what no kernel writes (weights). So the start of a launch, and the first reads of weights from memory, overlap the end of the kernel before.
// The wait ends when all earlier kernels have ended, since each of them waited itself. GPUs before compute capability 9.0 do one after the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <type_traits>

namespace ebb::kernels::cuda {

__device__ inline void begin_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A warp asks for bytes that it will read soon; no register waits for them.
__device__ inline void fetch_to_cache(const std::uint8_t* from, std::size_t n_bytes) {
  for (std::size_t at = threadIdx.x % 32 * 128; at < n_bytes; at += 32 * 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
}

// Whether the current device lets a kernel in early.
inline bool overlaps_kernels() {
  thread_local int known_device = -1;
  thread_local bool known = false;
  int device = 0, major = 0;
  cudaGetDevice(&device);
  if (device != known_device) {
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    known_device = device;
    known = major >= 9;
  }
  return known;
}

template <class... Parameters>
void launch_kernel(void (*kernel)(Parameters...), dim3 grid, unsigned threads, std::size_t shared_bytes, cudaStream_t stream,
                   std::type_identity_t<Parameters>... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t how{};
  how.gridDim = grid;
  how.blockDim = dim3(threads);
  how.dynamicSmemBytes = shared_bytes;
  how.stream = stream;
  how.attrs = &early;
  how.numAttrs = overlaps_kernels() ? 1 : 0;
  cudaLaunchKernelEx(&how, kernel, arguments...);
}

}  // namespace ebb::kernels::cuda

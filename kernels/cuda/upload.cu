#include "config/assert.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/upload.hpp"
#include <algorithm>
#include <cstdint>

namespace ebb::kernels::cuda {
namespace {

constexpr unsigned upload_threads = 256, upload_blocks_max = 32;

template <class Word>
__global__ void upload_kernel(Word* to, const Word* from, std::size_t n) {
  begin_kernel();
  for (std::size_t i = blockIdx.x * upload_threads + threadIdx.x; i < n; i += gridDim.x * upload_threads) to[i] = from[i];
}

template <class Word>
void launch(void* to, const void* from, std::size_t n_bytes, cudaStream_t stream) {
  const std::size_t n = n_bytes / sizeof(Word);
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((n + upload_threads - 1) / upload_threads, upload_blocks_max));
  launch_kernel(upload_kernel<Word>, blocks, upload_threads, 0, stream, static_cast<Word*>(to), static_cast<const Word*>(from), n);
}

bool whole(const void* to, const void* from, std::size_t n_bytes, std::size_t unit) {
  return (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | n_bytes) % unit == 0;
}

}  // namespace

void upload(void* to, const void* from, std::size_t n_bytes, cudaStream_t stream) {
  EBB_ASSERT(whole(to, from, n_bytes, sizeof(std::uint32_t)));
  if (n_bytes == 0) return;
  if (whole(to, from, n_bytes, sizeof(uint4))) launch<uint4>(to, from, n_bytes, stream);
  else launch<std::uint32_t>(to, from, n_bytes, stream);
}

}  // namespace ebb::kernels::cuda

// kernels/cuda/buffers.hpp: memory that is taken once, in one piece, and then handed out.
//
// Who needs many buffers describes them once, as a function of an allocator, and runs it twice: first with an allocator that only counts, then
// with one on the piece that was taken. So there is one call that may fail, and what is held is known to the byte.
#pragma once
#include "kernels/cuda/check.hpp"
#include <cstddef>
#include <memory>

namespace ebb::kernels::cuda {

class allocator {
 public:
  static constexpr std::size_t alignment = 256;

  explicit allocator(std::byte* base = nullptr) : base_(base) {}

  // Room for `n` values, aligned to 256 bytes; null while it only counts.
  template <class Value>
  Value* take(std::size_t n) {
    const std::size_t at = used_;
    used_ += (n * sizeof(Value) + alignment - 1) / alignment * alignment;
    return base_ == nullptr ? nullptr : reinterpret_cast<Value*>(base_ + at);
  }
  std::size_t used_bytes() const noexcept { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

struct device_free {
  void operator()(std::byte* base) const noexcept { cudaFree(base); }
};
struct pinned_free {
  void operator()(std::byte* base) const noexcept { cudaFreeHost(base); }
};
using device_piece = std::unique_ptr<std::byte, device_free>;
using pinned_piece = std::unique_ptr<std::byte, pinned_free>;

// All zeros. `what` says in an error what the memory was for. Errors: out_of_memory, card_lost.
inline result<device_piece> take_device(std::size_t n_bytes, const std::string& what) {
  void* base = nullptr;
  if (auto taken = check(cudaMalloc(&base, n_bytes), what + " (" + std::to_string(n_bytes >> 20) + " MiB)"); !taken) return fail(taken.error());
  device_piece piece(static_cast<std::byte*>(base));
  if (auto cleared = check(cudaMemset(base, 0, n_bytes), what); !cleared) return fail(cleared.error());
  return piece;
}

// Host memory that the GPU reads and writes at the same address; all zeros.
inline result<pinned_piece> take_pinned(std::size_t n_bytes, const std::string& what) {
  void* base = nullptr;
  const auto flags = cudaHostAllocPortable | cudaHostAllocMapped;
  if (auto taken = check(cudaHostAlloc(&base, n_bytes, flags), what + " (" + std::to_string(n_bytes >> 20) + " MiB of pinned host memory)"); !taken) {
    return fail(taken.error());
  }
  std::fill_n(static_cast<std::byte*>(base), n_bytes, std::byte{0});
  return pinned_piece(static_cast<std::byte*>(base));
}

}  // namespace ebb::kernels::cuda

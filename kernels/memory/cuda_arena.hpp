// kernels/memory/cuda_arena.hpp: the arena of a CUDA card: one reserved range of the GPU's addresses, a piece of physical memory a segment.
//
// Calls that map and unmap do not wait for kernels that run elsewhere in the range, nor do they disturb them. A release shows in the
// driver's free figure at once, to the byte. A GPU that does not end its copies in time is given up, and what they may use is never given back.
#pragma once
#include "kernels/cuda/device.hpp"
#include "kernels/memory/arena.hpp"
#include <memory>
#include <vector>

namespace ebb::kernels {

class cuda_arena final : public arena {
 public:
  // Reserves addresses, takes no memory yet. Errors: bad_value (a size of 0, or segments that are no whole pieces of what the GPU
  // gives out), out_of_memory (no such range of addresses), card_lost.
  static result<std::unique_ptr<cuda_arena>> create(std::shared_ptr<const cuda::device> on, segment_layout layout);
  ~cuda_arena() override;

  // An address of the GPU: not to be read by the CPU.
  std::byte* base() const noexcept override { return reinterpret_cast<std::byte*>(base_); }
  result<std::uint64_t> free_bytes() const override;
  bool copies_by_itself() const noexcept override { return true; }

  // Copies out of the arena into host memory; has ended when it returns. Pre: mapped (asserts). Errors: card_lost (also when the GPU does
  // not end it within limits::gpu_copy_timeout; the bytes must then outlive the process, as the GPU may still write them).
  result<void> copy_out(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  cuda_arena(std::shared_ptr<const cuda::device> on, segment_layout layout, CUmemAllocationProp kind, std::uint64_t piece_bytes);

  result<void> do_map(segment_index segment) override;
  result<void> do_unmap(segment_index segment) override;
  result<void> do_remap(segment_index segment) override;
  void do_release(segment_index segment) noexcept override;
  result<void> do_begin_copy_in(std::uint64_t offset, std::span<const std::byte> bytes) override;
  result<void> do_begin_copy_within(std::uint64_t from, std::uint64_t to, std::uint64_t size) override;
  result<void> do_finish_copies() override;

  result<void> make_ready() const;
  result<void> await_copies(const char* what) const;

  const cuda::driver& api() const noexcept { return device_->api(); }
  std::string describe(segment_index segment) const;
  std::string describe(const char* what) const;
  std::uint64_t taken_bytes(segment_index segment) const noexcept;  // of a segment, in whole pieces
  CUdeviceptr address_of(segment_index segment) const noexcept { return base_ + layout().begin_of(segment); }
  result<void> place(segment_index segment);

  std::shared_ptr<const cuda::device> device_;
  CUmemAllocationProp kind_;
  std::uint64_t piece_bytes_;
  CUdeviceptr base_ = 0;
  CUstream stream_ = nullptr;
  std::vector<CUmemGenericAllocationHandle> handles_;  // [segments], of those that hold memory
};

}  // namespace ebb::kernels

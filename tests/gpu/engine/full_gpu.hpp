// tests/gpu/engine/full_gpu.hpp: a GPU without room, and another process that wants some of it.
#pragma once
#include "kernels/gpu_module.hpp"
#include "tests/gpu/engine/neighbour.hpp"
#include "tests/gpu/engine/served.hpp"
#include "tests/tools/support/child_process.hpp"

namespace ebb::tools::test {

// Takes the GPU's memory until only so much is free, so that a small model meets a full card.
class ballast {
 public:
  explicit ballast(std::uint64_t leave_mib, std::uint32_t number = 0) {
    const auto driver = kernels::load_cuda_module();
    if (!driver) throw std::runtime_error(driver.error().text);
    auto opened = (*driver)->open(number);
    if (!opened) throw std::runtime_error(opened.error().text);
    gpu_ = std::move(*opened);
    auto made = gpu_->make_arena({piece_bytes, gpu_->about().total_bytes / piece_bytes * piece_bytes});
    if (!made) throw std::runtime_error(made.error().text);
    arena_ = std::move(*made);
    for (kernels::segment_index piece = 0; free_mib() >= leave_mib + (piece_bytes >> 20) && piece < arena_->layout().count(); ++piece) {
      if (auto mapped = arena_->map(piece); !mapped) throw std::runtime_error(mapped.error().text);
    }
  }

  std::uint64_t free_mib() const {
    const auto now = gpu_->memory();
    if (!now) throw std::runtime_error(now.error().text);
    return now->free_bytes >> 20;
  }

 private:
  static constexpr std::uint64_t piece_bytes = 64 * mib;
  std::shared_ptr<kernels::gpu> gpu_;
  std::unique_ptr<kernels::arena> arena_;
};

// Another process; it begins to take memory when it is told to.
class neighbour {
 public:
  explicit neighbour(std::uint32_t wanted_mib, std::uint32_t number = 0)
      : process_({std::filesystem::read_symlink("/proc/self/exe").string(), ebb::test::neighbour_argument, std::to_string(wanted_mib),
                  std::to_string(number)},
                 {}, true) {}

  void go() const { process_.write_input("go\n"); }
  bool has_memory() const { return process_.out() == "ok\n"; }
  bool ended() { return !process_.running(); }
  child_process& process() noexcept { return process_; }

 private:
  child_process process_;
};

}  // namespace ebb::tools::test

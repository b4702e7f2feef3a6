// kernels/cuda/device.hpp: one GPU, with this process's context on it. A context takes VRAM, so a device is opened only by a card that
// is to run on it.
#pragma once
#include "kernels/cuda/driver.hpp"
#include "kernels/gpu.hpp"
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace ebb::kernels::cuda {

class device {
 public:
  // Takes the primary context of GPU `number`, which CUDA counts from 0. Errors: unknown_device (names those there are),
  // out_of_memory (too little is free for a context), card_lost.
  static result<std::shared_ptr<const device>> open(std::shared_ptr<const driver> with, int number);
  ~device();
  device(const device&) = delete;
  device& operator=(const device&) = delete;

  const driver& api() const noexcept { return *driver_; }
  int number() const noexcept { return number_; }
  CUdevice handle() const noexcept { return handle_; }
  const std::string& name() const noexcept { return name_; }

  // Makes the context that of the calling thread, which every other call of the driver needs. Cheap if it is already.
  result<void> make_current() const;

  // It did not answer in time, and may never: from now on nothing is given back to it, since that would wait for it, and it may still use
  // what it was given. For good; from any thread.
  void give_up() const noexcept { given_up_.store(true, std::memory_order_relaxed); }
  bool given_up() const noexcept { return given_up_.load(std::memory_order_relaxed); }

  // By the driver's own figure, some 8 us. Errors: card_lost.
  result<memory_figures> memory() const;

 private:
  device(std::shared_ptr<const driver> with, int number) : driver_(std::move(with)), number_(number) {}

  std::shared_ptr<const driver> driver_;
  int number_;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
  mutable std::atomic<bool> given_up_ = false;
};

}  // namespace ebb::kernels::cuda

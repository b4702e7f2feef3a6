#include "kernels/cuda/device.hpp"
#include <array>

namespace ebb::kernels::cuda {

result<std::shared_ptr<const device>> device::open(std::shared_ptr<const driver> with, int number) {
  if (number < 0 || number >= with->n_devices()) {
    return fail(errc::unknown_device, "cuda:" + std::to_string(number) + ": the driver knows " +
                                          (with->n_devices() == 1 ? "only cuda:0" : "cuda:0 to cuda:" + std::to_string(with->n_devices() - 1)));
  }
  std::shared_ptr<device> opened(new device(std::move(with), number));
  const driver& api = *opened->driver_;
  const std::string which = "cuda:" + std::to_string(number);
  if (auto got = api.check(api.cuDeviceGet(&opened->handle_, number), which); !got) return fail(got.error());
  std::array<char, 256> name{};
  if (auto named = api.check(api.cuDeviceGetName(name.data(), static_cast<int>(name.size()), opened->handle_), which + ": its name"); !named)
    return fail(named.error());
  opened->name_ = name.data();
  if (auto taken = api.check(api.cuDevicePrimaryCtxRetain(&opened->context_, opened->handle_), which + ": no context"); !taken) return fail(taken.error());
  return opened;
}

device::~device() {
  if (context_ != nullptr && !given_up()) driver_->cuDevicePrimaryCtxRelease(handle_);
}

result<void> device::make_current() const { return driver_->check(driver_->cuCtxSetCurrent(context_), "cuda:" + std::to_string(number_)); }

result<memory_figures> device::memory() const {
  if (auto current = make_current(); !current) return fail(current.error());
  std::size_t free_bytes = 0, total_bytes = 0;
  if (auto read = driver_->check(driver_->cuMemGetInfo(&free_bytes, &total_bytes), "cuda:" + std::to_string(number_) + ": what is free"); !read)
    return fail(read.error());
  return memory_figures{free_bytes, total_bytes};
}

}  // namespace ebb::kernels::cuda

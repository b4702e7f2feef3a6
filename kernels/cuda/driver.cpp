#include "kernels/cuda/driver.hpp"
#include <dlfcn.h>

namespace ebb::kernels::cuda {
namespace {

constexpr const char* library_name = "libcuda.so.1";

}  // namespace

result<std::shared_ptr<const driver>> driver::load() {
  std::shared_ptr<driver> loaded(new driver);
  loaded->library_ = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (loaded->library_ == nullptr) {
    return fail(errc::unknown_device, std::string("cuda: no driver (") + library_name + " is not on this machine); install NVIDIA's, or use host cards");
  }
  if (auto found = loaded->look_up(); !found) return fail(found.error());
  if (auto begun = loaded->begin(); !begun) return fail(begun.error());
  return loaded;
}

// The driver is never unloaded under other users of the process: dlclose only counts down.
driver::~driver() {
  if (library_ != nullptr) ::dlclose(library_);
}

result<void> driver::look_up() {
  const char* missing = nullptr;
#define EBB_CUDA_LOOK_UP(function, name)                                                  \
  function = reinterpret_cast<decltype(function)>(::dlsym(library_, name));               \
  if (function == nullptr) missing = name;
  EBB_CUDA_DRIVER(EBB_CUDA_LOOK_UP)
#undef EBB_CUDA_LOOK_UP
  if (missing == nullptr) return {};
  return fail(errc::unknown_device, std::string("cuda: the driver is too old: it has no ") + missing + "; install a newer one, or use host cards");
}

result<void> driver::begin() {
  if (auto begun = check(cuInit(0), "the driver does not start"); !begun) return fail(errc::unknown_device, begun.error().text);
  if (auto counted = check(cuDeviceGetCount(&n_devices_), "counting the GPUs"); !counted) return counted;
  if (n_devices_ == 0) return fail(errc::unknown_device, "cuda: the driver knows no GPU; use host cards");
  return check(cuDriverGetVersion(&version_), "asking for the version");
}

result<void> driver::check(CUresult outcome, const std::string& what) const {
  if (outcome == CUDA_SUCCESS) return {};
  const char* words = nullptr;
  if (cuGetErrorString(outcome, &words) != CUDA_SUCCESS || words == nullptr) words = "unknown error";
  const errc code = outcome == CUDA_ERROR_OUT_OF_MEMORY ? errc::out_of_memory : errc::card_lost;
  return fail(code, "cuda: " + what + ": " + words + " (" + std::to_string(static_cast<int>(outcome)) + ")");
}

}  // namespace ebb::kernels::cuda

#include "kernels/cuda/driver.hpp"
#include <dlfcn.h>
#include <unistd.h>

namespace ebb::kernels::cuda {
namespace {

constexpr const char* library_name = "libcuda.so.1";
constexpr const char* kernel_driver_file = "/proc/driver/nvidia/version";  // there while NVIDIA's driver is loaded, in containers too

// Why the library cannot be used. A machine whose kernel has the driver lacks only this half of it.
tl::unexpected<error> not_loaded() {
  const char* const said = ::dlerror();
  if (::access(kernel_driver_file, F_OK) != 0) {
    return fail(errc::unknown_device, std::string("cuda: no driver (") + library_name + " is not on this machine); install NVIDIA's, or use host cards");
  }
  return fail(errc::refused, std::string("cuda: no driver (NVIDIA's is loaded, and its library cannot be: ") + (said == nullptr ? library_name : said) +
                                 "); install it too, in a container let the GPUs in (--gpus all), or use host cards");
}

tl::unexpected<error> no_gpu() { return fail(errc::unknown_device, "cuda: the driver knows no GPU; use host cards"); }

}  // namespace

result<std::shared_ptr<const driver>> driver::load() {
  std::shared_ptr<driver> loaded(new driver);
  loaded->library_ = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (loaded->library_ == nullptr) return not_loaded();
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
  return fail(errc::refused, std::string("cuda: the driver is too old: it has no ") + missing + "; install a newer one, or use host cards");
}

result<void> driver::begin() {
  const CUresult started = cuInit(0);
  if (started == CUDA_ERROR_NO_DEVICE) return no_gpu();
  if (auto begun = check(started, "the driver does not start"); !begun) {
    return fail(errc::refused, begun.error().text + "; see whether nvidia-smi works, load or install the driver again, or use host cards");
  }
  if (auto counted = check(cuDeviceGetCount(&n_devices_), "counting the GPUs"); !counted) return counted;
  if (n_devices_ == 0) return no_gpu();
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

#include "kernels/cuda/descriptions.hpp"
#include <array>
#include <cstdio>
#include <dlfcn.h>

namespace ebb::kernels::cuda {
namespace {

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> two{};
    std::snprintf(two.data(), two.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += two.data();
  }
  return text;
}

// The few functions of NVML that are needed, as its header declares them; looked up, since the library comes with the driver.
struct nvml_memory {
  unsigned long long total, free, used;
};
using nvml_device = void*;
class nvml {
 public:
  nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    look_up(init_, "nvmlInit_v2");
    look_up(shutdown_, "nvmlShutdown");
    look_up(by_uuid_, "nvmlDeviceGetHandleByUUID");
    look_up(memory_, "nvmlDeviceGetMemoryInfo");
    begun_ = init_ != nullptr && shutdown_ != nullptr && by_uuid_ != nullptr && memory_ != nullptr && init_() == success;
  }
  ~nvml() {
    if (begun_) shutdown_();
    if (library_ != nullptr) ::dlclose(library_);
  }
  nvml(const nvml&) = delete;
  nvml& operator=(const nvml&) = delete;

  std::optional<std::uint64_t> free_bytes(const std::string& uuid) const {
    nvml_device found = nullptr;
    nvml_memory figures{};
    if (!begun_ || by_uuid_(uuid.c_str(), &found) != success || memory_(found, &figures) != success) return std::nullopt;
    return figures.free;
  }

 private:
  static constexpr int success = 0;
  template <class Function>
  void look_up(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
  }

  void* library_;
  bool begun_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*by_uuid_)(const char*, nvml_device*) = nullptr;
  int (*memory_)(nvml_device, nvml_memory*) = nullptr;
};

}  // namespace

result<bool> is_new_enough(const driver& api, std::uint32_t number) {
  const std::string which = "cuda:" + std::to_string(number);
  CUdevice handle = 0;
  int major = 0;
  for (const CUresult outcome : {api.cuDeviceGet(&handle, static_cast<int>(number)), api.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle)}) {
    if (auto got = api.check(outcome, which + ": what it can do"); !got) return fail(got.error());
  }
  return major >= 8;
}

result<gpu_description> describe(const driver& api, std::uint32_t number) {
  const std::string which = "cuda:" + std::to_string(number);
  gpu_description said;
  said.number = number;
  CUdevice handle = 0;
  std::array<char, 256> name{};
  std::array<char, 32> address{};
  CUuuid uuid{};
  std::size_t total = 0;
  for (const CUresult outcome : {api.cuDeviceGet(&handle, static_cast<int>(number)), api.cuDeviceGetName(name.data(), static_cast<int>(name.size()), handle),
                                 api.cuDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), handle), api.cuDeviceGetUuid(&uuid, handle),
                                 api.cuDeviceTotalMem(&total, handle)}) {
    if (auto got = api.check(outcome, which + ": what it is"); !got) return fail(got.error());
  }
  said.name = name.data();
  said.pci_address = address.data();
  said.uuid = uuid_text(uuid);
  said.total_bytes = total;
  return said;
}

void read_free_memory(std::vector<gpu_description>& all) {
  const nvml library;
  for (gpu_description& of : all) {
    if (const auto free_bytes = library.free_bytes(of.uuid)) of.free_bytes = *free_bytes;
  }
}

}  // namespace ebb::kernels::cuda

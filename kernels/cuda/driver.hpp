// kernels/cuda/driver.hpp: the CUDA driver's functions, looked up at run time, so that one binary starts on any machine.
//
// Names and types are the driver API's (cuda.h); nothing is linked. Each function that is used is in EBB_CUDA_DRIVER once.
#pragma once
#include "config/result.hpp"
#include <cuda.h>
#include <memory>
#include <string>

// The second is the name in the library: the newest form of a function has a suffix, which cuda.h hides behind a macro.
#define EBB_CUDA_DRIVER(each)                                        \
  each(cuInit, "cuInit")                                             \
  each(cuGetErrorString, "cuGetErrorString")                         \
  each(cuDriverGetVersion, "cuDriverGetVersion")                     \
  each(cuDeviceGetCount, "cuDeviceGetCount")                         \
  each(cuDeviceGet, "cuDeviceGet")                                   \
  each(cuDeviceGetName, "cuDeviceGetName")                           \
  each(cuDeviceTotalMem, "cuDeviceTotalMem_v2")                      \
  each(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId")                   \
  each(cuDeviceGetUuid, "cuDeviceGetUuid_v2")                        \
  each(cuDeviceGetAttribute, "cuDeviceGetAttribute")                 \
  each(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")         \
  each(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2")    \
  each(cuCtxSetCurrent, "cuCtxSetCurrent")                           \
  each(cuMemGetInfo, "cuMemGetInfo_v2")                              \
  each(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity") \
  each(cuMemAddressReserve, "cuMemAddressReserve")                   \
  each(cuMemAddressFree, "cuMemAddressFree")                         \
  each(cuMemCreate, "cuMemCreate")                                   \
  each(cuMemRelease, "cuMemRelease")                                 \
  each(cuMemMap, "cuMemMap")                                         \
  each(cuMemUnmap, "cuMemUnmap")                                     \
  each(cuMemSetAccess, "cuMemSetAccess")                             \
  each(cuStreamCreate, "cuStreamCreate")                             \
  each(cuStreamDestroy, "cuStreamDestroy_v2")                        \
  each(cuStreamQuery, "cuStreamQuery")                               \
  each(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")                    \
  each(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")                    \
  each(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2")

namespace ebb::kernels::cuda {

class driver {
 public:
  // Loads libcuda.so.1 and starts it. It stays loaded as long as somebody holds it. Errors: unknown_device (no driver here, or no GPU
  // that it knows), refused (it is here and does not start, or is older than is needed: the text says which function is missing).
  static result<std::shared_ptr<const driver>> load();
  ~driver();
  driver(const driver&) = delete;
  driver& operator=(const driver&) = delete;

  int n_devices() const noexcept { return n_devices_; }  // at least 1
  int version() const noexcept { return version_; }      // 1000 * major + 10 * minor, of the newest CUDA that it speaks

  // Nothing, or what a call of the driver failed with: out_of_memory, else card_lost. `what` begins the text.
  result<void> check(CUresult outcome, const std::string& what) const;

#define EBB_CUDA_FUNCTION(function, name) decltype(&::function) function = nullptr;
  EBB_CUDA_DRIVER(EBB_CUDA_FUNCTION)
#undef EBB_CUDA_FUNCTION

 private:
  driver() = default;
  result<void> look_up();
  result<void> begin();

  void* library_ = nullptr;
  int n_devices_ = 0;
  int version_ = 0;
};

}  // namespace ebb::kernels::cuda

// A module that knows a GPU, and can do nothing with it.
#include "kernels/gpu_module.hpp"

namespace {

class driver_of_one final : public ebb::kernels::gpu_driver {
 public:
  ebb::result<std::vector<ebb::kernels::gpu_description>> list() const override {
    ebb::kernels::gpu_description only;
    only.name = "a GPU of a test";
    return std::vector{only};
  }
  ebb::result<std::shared_ptr<ebb::kernels::gpu>> open(std::uint32_t number) const override {
    return ebb::fail(ebb::errc::card_lost, "GPU " + std::to_string(number) + " is only a description");
  }
};

}  // namespace

extern "C" std::uint32_t ebb_gpu_module_version() { return ebb::kernels::gpu_module_version; }
extern "C" void ebb_gpu_module_open(ebb::kernels::gpu_module_result& out) { out.driver = std::make_shared<driver_of_one>(); }

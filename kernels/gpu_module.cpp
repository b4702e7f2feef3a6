#include "kernels/gpu_module.hpp"
#include "config/assert.hpp"
#include <cstdlib>
#include <dlfcn.h>
#include <system_error>

namespace ebb::kernels {
namespace {

constexpr const char* way_out = "; install ebb with its CUDA module again, or use host cards";

std::filesystem::path folder_of_program() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::filesystem::path() : program.parent_path();
}

// A path with a slash is taken as it is; a plain name is looked for by the system, and may not be there.
bool is_plain_name(const std::filesystem::path& place) { return !place.has_parent_path(); }

std::string listed(std::span<const std::filesystem::path> places) {
  std::string text;
  for (const auto& place : places) text += (text.empty() ? "" : ", ") + (is_plain_name(place) ? "where the system looks" : place.string());
  return text;
}

// The system's loader says so of a name that it found nowhere, and of nothing that it found.
bool is_not_there(const std::string& why, const std::filesystem::path& place) {
  return why.starts_with(place.string() + ": cannot open shared object file: No such file");
}

std::string why_not_loaded() {
  const char* const said = ::dlerror();
  return said == nullptr ? "the system does not say why" : said;
}

// A module of this very build, or why it is none.
result<gpu_module_open_fn> opening_function(void* module, const std::string& name) {
  const auto version = reinterpret_cast<gpu_module_version_fn>(::dlsym(module, gpu_module_version_name));
  const auto open = reinterpret_cast<gpu_module_open_fn>(::dlsym(module, gpu_module_open_name));
  if (version == nullptr || open == nullptr)
    return fail(errc::refused, "cuda: no driver (" + name + " is no module of ebb)" + way_out);
  if (version() == gpu_module_version) return open;
  return fail(errc::refused, "cuda: no driver (" + name + " is a module of version " + std::to_string(version()) +
                                 ", and this program needs " + std::to_string(gpu_module_version) + ": they are of two builds)" + way_out);
}

}  // namespace

std::vector<std::filesystem::path> cuda_module_places() {
  const std::filesystem::path here = folder_of_program();
  std::vector<std::filesystem::path> places;
  if (!here.empty()) {
    places = {here / cuda_module_name, here / "../lib" / cuda_module_name, here / "../lib/ebb" / cuda_module_name,
              here / "../kernels" / cuda_module_name, here / "../../kernels" / cuda_module_name};
  }
  places.emplace_back(cuda_module_name);
  return places;
}

result<std::shared_ptr<gpu_driver>> load_gpu_module(std::span<const std::filesystem::path> places) {
  std::string why;
  for (const std::filesystem::path& place : places) {
    std::error_code ignored;
    if (!is_plain_name(place) && !std::filesystem::exists(place, ignored)) continue;
    void* const module = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) {
      why = why_not_loaded();
      if (is_plain_name(place) && is_not_there(why, place)) continue;
      return fail(errc::refused, "cuda: no driver (" + place.string() + " cannot be loaded: " + why + ")" + way_out);
    }
    const auto open = opening_function(module, place.string());
    if (!open) {
      ::dlclose(module);
      return fail(open.error());
    }
    gpu_module_result out;
    (*open)(out);
    EBB_ASSERT(!out.driver || *out.driver != nullptr);
    return std::move(out.driver);
  }
  return fail(errc::unknown_device,
              "cuda: no driver (its module is not there; looked at " + listed(places) + (why.empty() ? "" : ": " + why) + ")" + way_out);
}

result<std::shared_ptr<gpu_driver>> load_cuda_module() { return load_gpu_module(cuda_module_places()); }

}  // namespace ebb::kernels

#include "kernels/gpu_module.hpp"
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

using namespace ebb;
using namespace ebb::kernels;
using Catch::Contains;
using path = std::filesystem::path;

namespace {

path module_of(const std::string& name) { return path(EBB_TEST_MODULES) / ("libgpu_module_" + name + ".so"); }

// unknown_device: nothing is here. refused: something is, and it does not work.
std::string why_not(const std::vector<path>& places, errc expected) {
  const auto loaded = load_gpu_module(places);
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == expected);
  CHECK_THAT(loaded.error().text, Contains("cuda: no driver"));
  CHECK_THAT(loaded.error().text, Contains("use host cards") || Contains("this module never has one"));
  return loaded.error().text;
}

}  // namespace

TEST_CASE("without a module the error says where it was looked for and what to do") {
  const std::string text = why_not({"/nowhere/libebb_cuda.so", "libebb_no_such_module.so"}, errc::unknown_device);
  CHECK_THAT(text, Contains("/nowhere/libebb_cuda.so") && Contains("where the system looks") && Contains("libebb_no_such_module.so"));
}

TEST_CASE("a file that is no library is named with the system's reason, and nothing else is tried") {
  const path file =
      std::filesystem::temp_directory_path() / ("ebb-no-library-" + std::to_string(std::hash<std::string>{}(EBB_TEST_MODULES)) + ".so");
  std::ofstream(file) << "no library at all";
  const std::string text = why_not({file, module_of("one_gpu")}, errc::refused);
  std::filesystem::remove(file);
  CHECK_THAT(text, Contains(file.string() + " cannot be loaded: "));
}

TEST_CASE("a library that is no module of ebb is refused by name") {
  CHECK_THAT(why_not({"libm.so.6"}, errc::refused), Contains("libm.so.6 is no module of ebb"));
}

TEST_CASE("a module of another build is refused with both versions, before it is opened") {
  const std::string text = why_not({module_of("another_version")}, errc::refused);
  CHECK_THAT(text,
             Contains("version " + std::to_string(gpu_module_version + 1)) && Contains("needs " + std::to_string(gpu_module_version)));
}

TEST_CASE("what a module says of a machine without a driver is passed on") {
  CHECK(why_not({module_of("no_driver")}, errc::unknown_device) == "cuda: no driver (this module never has one)");
}

TEST_CASE("the first place where there is a module is the one that is used, and its driver answers") {
  const auto loaded = load_gpu_module(std::vector<path>{"/nowhere/libebb_cuda.so", module_of("one_gpu"), module_of("no_driver")});
  REQUIRE(loaded);
  const auto all = (*loaded)->list();
  REQUIRE(all);
  REQUIRE(all->size() == 1);
  CHECK(all->front().name == "a GPU of a test");
  CHECK((*loaded)->open(3).error().text == "GPU 3 is only a description");
}

TEST_CASE("the module is looked for beside the program first, and where the system looks last") {
  const auto places = cuda_module_places();
  REQUIRE(places.size() > 2);
  CHECK(places.front() == std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libebb_cuda.so");
  CHECK(places.back() == "libebb_cuda.so");
}

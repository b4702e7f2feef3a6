#include "kernels/memory/system_memory.hpp"
#include <catch2/catch.hpp>
#include <fstream>
#include <unistd.h>

namespace ebb::kernels {
namespace {

// A directory that stands for the root of a system, with the files that a test writes.
class system_root {
 public:
  system_root() {
    std::string name = (std::filesystem::temp_directory_path() / "ebb_system_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path_ = name;
  }
  ~system_root() { std::filesystem::remove_all(path_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST_CASE("available memory is MemAvailable where no group limits it") {
  const system_root root;
  root.write("proc/meminfo", "MemTotal:       24000000 kB\nMemFree:         1000000 kB\nMemAvailable:    5000000 kB\n");
  CHECK(available_memory_bytes(root.path()) == 5000000ull * 1024);

  root.write("proc/self/cgroup", "0::/ebb.service\n");
  root.write("sys/fs/cgroup/ebb.service/memory.max", "max\n");
  root.write("sys/fs/cgroup/ebb.service/memory.current", "4096\n");
  CHECK(available_memory_bytes(root.path()) == 5000000ull * 1024);
}

TEST_CASE("available memory is what the control group has left, with file pages that nobody used lately") {
  const system_root root;
  root.write("proc/meminfo", "MemAvailable:    5000000 kB\n");
  root.write("proc/self/cgroup", "4:memory:/old\n0::/ebb.service\n");
  root.write("sys/fs/cgroup/ebb.service/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/ebb.service/memory.current", "900000\n");
  CHECK(available_memory_bytes(root.path()) == 100000u);

  root.write("sys/fs/cgroup/ebb.service/memory.stat", "anon 400000\ninactive_file 300000\nactive_file 1\n");
  CHECK(available_memory_bytes(root.path()) == 400000u);

  root.write("sys/fs/cgroup/ebb.service/memory.current", "2000000\n");
  CHECK(available_memory_bytes(root.path()) == 0u);
}

TEST_CASE("available memory is what a control group of version 1 has left; one without a limit has a very large one") {
  const system_root root;
  root.write("proc/meminfo", "MemAvailable:    5000000 kB\n");
  root.write("proc/self/cgroup", "7:cpu,cpuacct:/ebb\n4:memory:/ebb\n0::/\n");
  root.write("sys/fs/cgroup/memory/ebb/memory.limit_in_bytes", "1000000\n");
  root.write("sys/fs/cgroup/memory/ebb/memory.usage_in_bytes", "900000\n");
  root.write("sys/fs/cgroup/memory/ebb/memory.stat", "inactive_file 1\ntotal_inactive_file 300000\n");
  CHECK(available_memory_bytes(root.path()) == 400000u);
  root.write("sys/fs/cgroup/memory/ebb/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(available_memory_bytes(root.path()) == 5000000ull * 1024);
}

TEST_CASE("a system without a figure is an error that names the file") {
  const system_root root;
  auto available = available_memory_bytes(root.path());
  REQUIRE_FALSE(available);
  CHECK(available.error().code == errc::file_unreadable);
  CHECK(available.error().text.find("proc/meminfo") != std::string::npos);
}

TEST_CASE("this system says how much memory is available") {
  const auto available = available_memory_bytes();
  REQUIRE(available);
  CHECK(*available > 0);
}

}  // namespace
}  // namespace ebb::kernels

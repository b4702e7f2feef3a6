// tests/bus/support/temporary_folder.hpp: a folder of its own for a test, short enough for socket paths, gone when the test ends.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace ebb::bus::test {

class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = "/tmp/ebb-bus-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ebb::bus::test

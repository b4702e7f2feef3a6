// tests/model/support/temporary_folder.hpp: a folder of its own for a test, gone when the test ends.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace ebb::model::test {

class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ebb-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace ebb::model::test

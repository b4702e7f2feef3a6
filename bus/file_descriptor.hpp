// bus/file_descriptor.hpp: an open file that closes itself.
#pragma once
#include <unistd.h>
#include <utility>

namespace ebb::bus {

class file_descriptor {
 public:
  explicit file_descriptor(int opened = -1) noexcept : fd_(opened) {}
  file_descriptor(file_descriptor&& other) noexcept : fd_(other.release()) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~file_descriptor() {
    if (is_open()) ::close(fd_);
  }

  bool is_open() const noexcept { return fd_ >= 0; }
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace ebb::bus

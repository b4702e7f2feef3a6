// model/mapped_file.hpp: the bytes of a file, mapped read-only and private.
//
// A file that is cut short while it is mapped raises SIGBUS at the first read past its new end: no program can guard against that
// without copying the file. Replace a model by renaming another over it (the mapping keeps the old one), never by writing into it.
#pragma once
#include "config/result.hpp"
#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

namespace ebb::model {

class mapped_file {
 public:
  // An empty file is mapped as no bytes. Errors: file_unreadable (with path and reason).
  static result<mapped_file> open(const std::filesystem::path& path);

  mapped_file(mapped_file&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), descriptor_(std::exchange(other.descriptor_, -1)) {}
  mapped_file& operator=(mapped_file&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~mapped_file();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  // The file that is mapped, whatever its path names by now; open as long as the mapping.
  int descriptor() const noexcept { return descriptor_; }

 private:
  mapped_file(std::span<const std::byte> bytes, int descriptor) noexcept : bytes_(bytes), descriptor_(descriptor) {}
  std::span<const std::byte> bytes_;
  int descriptor_;  // -1 when moved from
};

// Reads a byte of every page of `bytes`, so that the system has them in memory. They need not be a whole mapping.
void read_through(std::span<const std::byte> bytes) noexcept;

}  // namespace ebb::model

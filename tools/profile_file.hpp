// tools/profile_file.hpp: the file that keeps which experts of one model were hot.
#pragma once
#include "bus/expert_profile.hpp"
#include "config/result.hpp"
#include "model/checkpoint.hpp"
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ebb::tools {

class profile_file {
 public:
  // `gguf` is the path that was opened. `setting` is that of `profile`: a path, "off", or empty for a file in `folder` named after the
  // model and its size. None: it is off, or there is no folder.
  static std::optional<profile_file> of(const std::filesystem::path& gguf, const model::shape& dims, const std::string& setting,
                                        const std::filesystem::path& folder);

  // As it was written last, [layers, experts]; none if it never was.
  // Errors: file_unreadable, corrupt (the next write replaces it); refused (it is of another model, and must not be written over).
  result<std::optional<std::vector<float>>> read() const;

  // Returns when it is on the disk; a crash leaves the old one. Errors: file_unwritable.
  result<void> write(std::vector<float> heat) const;

 private:
  profile_file(std::filesystem::path path, bus::expert_profile about) : path_(std::move(path)), about_(std::move(about)) {}

  std::filesystem::path path_;
  bus::expert_profile about_;  // without heats
};

}  // namespace ebb::tools

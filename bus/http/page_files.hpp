// bus/http/page_files.hpp: the files of the page, as they are in the program: bus/http/page/, put there by cmake/EmbedFiles.cmake.
#pragma once
#include <span>
#include <string_view>

namespace ebb {

struct embedded_file {
  std::string_view name;   // without a folder
  std::string_view bytes;
  std::string_view tag;    // the beginning of its SHA-256: another one when a byte is another
};

std::span<const embedded_file> page_files();

}  // namespace ebb

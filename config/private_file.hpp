// config/private_file.hpp: files that hold secrets: made for their owner alone, and not read when others could read them too.
#pragma once
#include "config/result.hpp"
#include <filesystem>
#include <string>
#include <string_view>

namespace ebb {

// Errors: file_unreadable; refused (its group or others have any right to it; the text has the chmod to run); too_large (over
// limits::key_file_bytes_max). Never a word of what is in it.
result<std::string> read_private_file(const std::filesystem::path& path);

// A new file with mode 0600. Errors: refused (there is such a file already, which is left alone), file_unwritable.
result<void> create_private_file(const std::filesystem::path& path, std::string_view text);

// All of the new text or all of the old one, whenever the machine stops. Mode 0600. Errors: file_unwritable.
result<void> replace_private_file(const std::filesystem::path& path, std::string_view text);

}  // namespace ebb

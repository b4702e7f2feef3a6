// tools/atomic_file.hpp: a small file that is replaced as a whole: a reader sees the old one or the new one, and never a part.
#pragma once
#include "bus/bytes.hpp"
#include "config/result.hpp"
#include <cstddef>
#include <filesystem>
#include <optional>

namespace ebb::tools {

// Returns when the new one is on the disk. Readable by this user alone. It is written as PATH.new first, so one writer at a time.
// Errors: file_unwritable, naming the file.
result<void> replace_file(const std::filesystem::path& path, bus::bytes_view content);

// All of it; none if there is no such file, and only then. Errors: file_unreadable (no right to it, a folder, whatever else keeps it from
// being read), too_large (more than `bytes_max`), naming the file.
result<std::optional<bus::bytes>> read_file(const std::filesystem::path& path, std::size_t bytes_max);

}  // namespace ebb::tools

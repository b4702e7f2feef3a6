// tools/atomic_file.hpp: a small file that is replaced as a whole: a reader sees the old one or the new one, and never a part.
#pragma once
#include "bus/bytes.hpp"
#include "config/result.hpp"
#include <filesystem>

namespace ebb::tools {

// Returns when the new one is on the disk. Readable by this user alone. It is written as PATH.new first, so one writer at a time.
// Errors: file_unwritable, naming the file.
result<void> replace_file(const std::filesystem::path& path, bus::bytes_view content);

}  // namespace ebb::tools

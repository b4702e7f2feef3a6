// bus/http/api_key.hpp: the file with the key that every request must bring: one line.
#pragma once
#include "config/result.hpp"
#include <filesystem>
#include <functional>
#include <string>

namespace ebb::bus::http {

// `warn` is told if others than its owner may read it. Errors: file_unreadable; bad_value (not one line of 8 to 4096 characters without blanks).
// Never a word of what is in it.
result<std::string> read_api_key(const std::filesystem::path& file, const std::function<void(const error&)>& warn);

}  // namespace ebb::bus::http

// bus/bytes.hpp: a frame as bytes, owned or looked at.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace ebb::bus {

using bytes = std::vector<std::byte>;
using bytes_view = std::span<const std::byte>;

inline bytes_view as_bytes(std::string_view text) noexcept { return std::as_bytes(std::span(text)); }

inline std::string_view as_text(bytes_view frame) noexcept { return {reinterpret_cast<const char*>(frame.data()), frame.size()}; }

}  // namespace ebb::bus

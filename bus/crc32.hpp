// bus/crc32.hpp: the CRC-32 of zlib, gzip and PNG: polynomial 0x04c11db7, bits reflected, begun with and xored by all ones.
// In Python: zlib.crc32(bytes, so_far).
#pragma once
#include "bus/bytes.hpp"
#include <cstdint>

namespace ebb::bus {

// Of the bytes before, whose sum is `so_far`, and `more` together. Of no bytes: 0.
std::uint32_t crc32(bytes_view more, std::uint32_t so_far = 0) noexcept;

}  // namespace ebb::bus

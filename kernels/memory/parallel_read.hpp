// kernels/memory/parallel_read.hpp: several threads that read bytes of files into memory.
#pragma once
#include "config/result.hpp"
#include "kernels/memory/pinned_store.hpp"

namespace ebb::kernels {

// Reads piece i to base + offsets[i]; each thread takes the next chunk until none is left. Returns when every thread has ended.
// Errors: file_unreadable, cancelled.
result<void> read_pieces(std::span<const store_piece> pieces, std::byte* base, std::span<const std::uint64_t> offsets, const store_options& options);

}  // namespace ebb::kernels

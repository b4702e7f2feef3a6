// bus/journal_tear.hpp: whether the rest of a journal is what a writer that was interrupted leaves, or damage.
//
//   torn = a proper prefix of one record, then zeros or nothing       (a file that grew on the disk before its bytes came reads as zeros)
//
// Only bytes are looked at, so that it is tested without a file.
#pragma once
#include "bus/bytes.hpp"
#include "bus/journal_record.hpp"
#include "config/limits.hpp"

namespace ebb::bus {

// The most that is ever called torn: one record.
inline constexpr std::size_t journal_torn_bytes_max = journal_prefix_bytes + limits::journal_record_bytes_max;

// `rest`: all that follows the last whole record.
bool is_torn_record(bytes_view rest) noexcept;

// Likewise where there is no whole record, so that the file may be anybody's: it must look like a header as far as it goes, and begin
// with a whole `length`, since fewer bytes are too few to know a journal by. Zeros alone are torn.
bool is_torn_header(bytes_view whole_file) noexcept;

}  // namespace ebb::bus

#include "bus/journal_tear.hpp"
#include <algorithm>
#include <array>
#include <string_view>

namespace ebb::bus {
namespace {

constexpr std::size_t length_bytes = 4;
constexpr std::string_view header_begins = "\x95\xab" "ebb-journal";  // a msgpack array of 5 whose first element is that text

bytes_view without_zeros_at_end(bytes_view from) noexcept {
  const auto last = std::find_if(from.rbegin(), from.rend(), [](std::byte each) { return each != std::byte{0}; });
  return from.first(static_cast<std::size_t>(from.rend() - last));
}

// What of the prefix is missing counts as zeros.
journal_prefix prefix_of(bytes_view written) noexcept {
  std::array<std::byte, journal_prefix_bytes> prefix{};
  std::copy_n(written.begin(), std::min(written.size(), prefix.size()), prefix.begin());
  return decode_journal_prefix(prefix);
}

// What is left once the zeros at the end are taken off is shorter than the record that it begins. (A whole last record that is damaged and
// ends in a zero cannot be told from that: it is called torn.)
bool is_begun(bytes_view written, std::size_t record_bytes_max) noexcept {
  const std::uint32_t length = prefix_of(written).length_bytes;
  const bool length_is_whole = written.size() >= length_bytes;
  if (length > record_bytes_max || (length == 0 && length_is_whole)) return false;
  return written.size() < journal_prefix_bytes + length;
}

// As far as it goes.
bool looks_like_header(bytes_view written) noexcept {
  if (prefix_of(written).length_bytes < header_begins.size()) return false;
  const std::string_view payload = as_text(written.subspan(std::min(journal_prefix_bytes, written.size()))).substr(0, header_begins.size());
  return header_begins.starts_with(payload);
}

}  // namespace

bool is_torn_record(bytes_view rest) noexcept {
  if (rest.size() > journal_torn_bytes_max) return false;
  const bytes_view written = without_zeros_at_end(rest);
  return written.empty() || is_begun(written, limits::journal_record_bytes_max);
}

bool is_torn_header(bytes_view whole_file) noexcept {
  if (whole_file.size() > journal_torn_bytes_max) return false;
  const bytes_view written = without_zeros_at_end(whole_file);
  if (written.empty()) return true;
  return whole_file.size() >= length_bytes && is_begun(written, limits::journal_around_bytes_max) && looks_like_header(written);
}

}  // namespace ebb::bus

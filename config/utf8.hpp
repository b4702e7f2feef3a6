// config/utf8.hpp: text from outside: whether it is UTF-8, and how it is shown in an error or an answer.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ebb {

// Where the first byte lies that is no part of a valid character (overlong forms and surrogates are not); none if all is well.
std::optional<std::size_t> first_invalid_utf8(std::string_view text) noexcept;

// Each byte that is no part of a valid character becomes U+FFFD, so that a client's strict decoder never stumbles over an answer.
std::string repaired_utf8(std::string_view text);

inline bool is_valid_utf8(std::string_view text) noexcept { return !first_invalid_utf8(text); }

// For a text answer or a terminal, where quotes would be in the way: control characters become spaces and invalid bytes U+FFFD, so that
// it can neither forge a line nor command the terminal.
std::string on_one_line(std::string_view text);

// For an error or a terminal: in double quotes, on one line, cut after limits::quoted_bytes_max bytes with "...", since a corrupt
// name may be megabytes of anything; control characters, quotes, backslashes and invalid bytes as \xNN.
std::string in_quotes(std::string_view text);

}  // namespace ebb

// tools/terminal_text.hpp: how many columns of a terminal a text takes.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace ebb::tools {

// Chinese, Japanese and Korean letters and most pictures take two columns, marks that combine with a letter none. Pre: UTF-8 on one line.
std::size_t columns_of(std::string_view text);

// The longest beginning that takes at most so many columns.
std::string cut_to_columns(std::string_view text, std::size_t columns);

}  // namespace ebb::tools

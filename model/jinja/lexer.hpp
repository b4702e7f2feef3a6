// model/jinja/lexer.hpp: a template cut into its text and the tokens between {{ }} and {% %}.
//
// White space is treated as Hugging Face's renderer has Jinja do it: the first newline after a block or comment is dropped
// (trim_blocks), blanks between the beginning of a line and a block or comment are too (lstrip_blocks), a sign in a tag asks for more
// ("-") or for neither ("+"), line ends are \n, and one newline at the end of the file is dropped.
#pragma once
#include "config/result.hpp"
#include "model/jinja/run.hpp"
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::model::jinja {

struct token {
  enum class kind : std::uint8_t { text, output_begin, output_end, block_begin, block_end, name, string, integer, real, symbol, end };
  kind what;
  place at;
  std::string words;  // of text and strings what they stand for, of all others as written
  std::int64_t integer = 0;
  double real = 0;
};

// The last token is `end`. Errors: bad_value (with line and column), too_large (over limits::chat_template_bytes_max).
result<std::vector<token>> cut_into_tokens(std::string_view source);

}  // namespace ebb::model::jinja

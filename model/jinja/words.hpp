// model/jinja/words.hpp: what filters and methods do to a text alike. Each spends of the run's budget first.
#pragma once
#include "model/jinja/run.hpp"
#include "model/jinja/text.hpp"
#include <cstdint>
#include <string_view>
#include <vector>

namespace ebb::model::jinja {

enum class side : std::uint8_t { left, right, both };

// Without the characters of `set` at its ends; white space where `set` is null.
text stripped(run& in, const text& words, side where, const text* set);

// Every `before`, at most `count` times if that is not negative, becomes `after`.
text replaced(run& in, const text& words, const text& before, const text& after, std::int64_t count);

// As the method splitlines() does: at every line end that Unicode knows; what ends a line stays with it if asked.
std::vector<text> lines_of(run& in, const text& words, bool keep_ends);

text in_upper(run& in, const text& words);
text in_lower(run& in, const text& words);
text capitalized(run& in, const text& words);

// As the method title() does: a letter after what is no letter is large, all others small.
text titled(run& in, const text& words);

}  // namespace ebb::model::jinja

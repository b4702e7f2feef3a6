// model/jinja/parser.hpp: tokens to a tree (model/jinja/syntax.hpp).
//
// What a template may not use is found here, with its line and column: unknown tags, filters and tests, include, import, extends.
#pragma once
#include "config/result.hpp"
#include "model/jinja/syntax.hpp"
#include <string_view>

namespace ebb::model::jinja {

// Errors: bad_value (not the language, or a part of it that is not supported; named), too_large (the template, or its nesting).
result<block> parse(std::string_view source);

}  // namespace ebb::model::jinja

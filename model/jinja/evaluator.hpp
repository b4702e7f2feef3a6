// model/jinja/evaluator.hpp: renders a tree with variables.
#pragma once
#include "config/result.hpp"
#include "model/jinja/syntax.hpp"
#include "model/jinja/value.hpp"
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ebb::model::jinja {

using variables = std::vector<std::pair<std::string, value>>;

// `now` is what strftime_now tells, as the wall clock of who asks shows it; without one the template finds no strftime_now.
// Errors: bad_value (what the template does is an error, or it calls raise_exception: with its text), too_large (over a limit).
result<text> render(const block& tree, variables given, std::optional<std::chrono::sys_seconds> now);

}  // namespace ebb::model::jinja

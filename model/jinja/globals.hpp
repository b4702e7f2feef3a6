// model/jinja/globals.hpp: the functions that a template finds without being given them: range, dict, raise_exception, strftime_now.
// (namespace makes something that a run owns, and is the evaluator's.)
#pragma once
#include "model/jinja/arguments.hpp"
#include "model/jinja/run.hpp"
#include "model/jinja/value.hpp"
#include <chrono>
#include <optional>
#include <string_view>

namespace ebb::model::jinja {

bool is_global(std::string_view name) noexcept;

// Pre: is_global(name); `now` holds if it is strftime_now.
value call_global(run& in, std::string_view name, const arguments& given, std::optional<std::chrono::sys_seconds> now);

}  // namespace ebb::model::jinja

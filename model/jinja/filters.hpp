// model/jinja/filters.hpp: what stands behind "|": Jinja's filters.
#pragma once
#include "model/jinja/arguments.hpp"
#include "model/jinja/run.hpp"
#include "model/jinja/value.hpp"
#include <string_view>

namespace ebb::model::jinja {

bool is_filter(std::string_view name) noexcept;

// Pre: is_filter(name).
value apply_filter(run& in, std::string_view name, const value& of, const arguments& given);

}  // namespace ebb::model::jinja

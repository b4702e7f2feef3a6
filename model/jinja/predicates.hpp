// model/jinja/predicates.hpp: what stands behind "is": Jinja's tests.
#pragma once
#include "model/jinja/arguments.hpp"
#include "model/jinja/run.hpp"
#include "model/jinja/value.hpp"
#include <string_view>

namespace ebb::model::jinja {

bool is_predicate(std::string_view name) noexcept;

// Pre: is_predicate(name); a name that was computed is checked by the caller.
bool apply_predicate(run& in, std::string_view name, const value& of, const arguments& given);

}  // namespace ebb::model::jinja

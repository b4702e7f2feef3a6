// model/jinja/operators.hpp: arithmetic, comparisons and "in", with Python's meaning. Integers have 64 bits; what does not fit is an
// error, not another number.
#pragma once
#include "model/jinja/run.hpp"
#include "model/jinja/value.hpp"
#include <optional>
#include <string_view>

namespace ebb::model::jinja {

value apply_binary(run& in, std::string_view symbol, const value& left, const value& right);
value apply_sign(run& in, std::string_view sign, const value& of);
bool apply_comparison(run& in, std::string_view symbol, const value& left, const value& right);

// Negative, 0 or positive; failed where Python has no order.
int order_of(run& in, const value& left, const value& right);
bool contains(run& in, const value& whole, const value& part);

}  // namespace ebb::model::jinja

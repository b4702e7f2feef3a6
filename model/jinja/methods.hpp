// model/jinja/methods.hpp: the methods of strings, mappings and lists that templates call. None changes its object: as in Hugging
// Face's renderer, lists and mappings of a template cannot be changed.
#pragma once
#include "model/jinja/arguments.hpp"
#include "model/jinja/run.hpp"
#include "model/jinja/value.hpp"
#include <string_view>

namespace ebb::model::jinja {

bool is_text_method(std::string_view name) noexcept;
bool is_dict_method(std::string_view name) noexcept;
bool is_sequence_method(std::string_view name) noexcept;

// Pre: `object` has a method of that name (model/jinja/lookup.hpp).
value call_method(run& in, const value& object, std::string_view name, const arguments& given);

}  // namespace ebb::model::jinja

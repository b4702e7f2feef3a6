// model/jinja/lookup.hpp: what lies in a value: attributes, items, slices, and what a loop goes over.
#pragma once
#include "model/jinja/arguments.hpp"
#include "model/jinja/run.hpp"
#include "model/jinja/value.hpp"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::model::jinja {

// Of a loop that is under way.
struct loop_state {
  const std::vector<value>* items;
  std::size_t index = 0;
  std::size_t depth = 1;
  std::optional<value> changed;  // what loop.changed was given last
};

// object.name: a method before an item of that name, as in Jinja. Undefined if there is neither; of an undefined object an error.
value attribute_of(run& in, const value& object, const std::string& name);

// object[key].
value item_of(run& in, const value& object, const value& key);

// object[start:stop:step]; undefined or none where left out.
value slice_of(run& in, const value& object, const value& start, const value& stop, const value& step);

// "a.b.0" from `object`, as filters take it; a number is an index.
value path_of(run& in, const value& object, const value& path);

// What a for goes over: items, keys, characters; nothing of an undefined value.
std::optional<std::vector<value>> items_of(run& in, const value& of);

// How many those are; none where there is no such number.
std::optional<std::int64_t> length_of(run& in, const value& of);

bool has_method(const value& object, std::string_view name) noexcept;

}  // namespace ebb::model::jinja

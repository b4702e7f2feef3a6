// model/jinja/arguments.hpp: what a call was given, read by position or by name.
#pragma once
#include "model/jinja/run.hpp"
#include "model/jinja/value.hpp"
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ebb::model::jinja {

struct arguments {
  std::vector<value> positional;
  std::vector<std::pair<std::string, value>> named;

  // Null where neither was given.
  const value* find(std::size_t index, std::string_view name) const noexcept;
  value get(std::size_t index, std::string_view name, value fallback) const;

  // Whether there are at most the arguments named, and at least the first `needed`; otherwise `in` has failed, naming `what`.
  bool fit(run& in, std::string_view what, std::initializer_list<std::string_view> names, std::size_t needed = 0) const;
};

// Failed, and nothing, unless it is what Python would take there.
std::optional<std::int64_t> to_integer(run& in, const value& of, std::string_view what);
const text* to_words(run& in, const value& of, std::string_view what);

}  // namespace ebb::model::jinja

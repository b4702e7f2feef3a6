#include "model/jinja/arguments.hpp"
#include "config/utf8.hpp"
#include <algorithm>

namespace ebb::model::jinja {

const value* arguments::find(std::size_t index, std::string_view name) const noexcept {
  if (index < positional.size()) return &positional[index];
  const auto found = std::ranges::find(named, name, &std::pair<std::string, value>::first);
  return found == named.end() ? nullptr : &found->second;
}

value arguments::get(std::size_t index, std::string_view name, value fallback) const {
  const value* given = find(index, name);
  return given ? *given : std::move(fallback);
}

bool arguments::fit(run& in, std::string_view what, std::initializer_list<std::string_view> names, std::size_t needed) const {
  const std::string subject(what);
  if (positional.size() > names.size()) return in.fail(subject + " takes at most " + std::to_string(names.size()) + " arguments"), false;
  for (const auto& [name, given] : named) {
    const auto place = std::ranges::find(names, std::string_view(name));
    if (place == names.end()) return in.fail(subject + " has no argument " + in_quotes(name)), false;
    if (static_cast<std::size_t>(place - names.begin()) < positional.size())
      return in.fail(subject + " is given " + in_quotes(name) + " twice"), false;
  }
  for (std::size_t index = 0; index < needed; ++index) {
    if (!find(index, names.begin()[index])) return in.fail(subject + " needs the argument " + in_quotes(names.begin()[index])), false;
  }
  return !in.failed();
}

std::optional<std::int64_t> to_integer(run& in, const value& of, std::string_view what) {
  std::int64_t room;
  if (const std::int64_t* number = of.as_index(room)) return *number;
  in.fail(std::string(what) + " must be an integer, not " + std::string(of.type_name()));
  return std::nullopt;
}

const text* to_words(run& in, const value& of, std::string_view what) {
  const text* words = of.as_text();
  if (!words) in.fail(std::string(what) + " must be a string, not " + std::string(of.type_name()));
  return words;
}

}  // namespace ebb::model::jinja

#include "config/written_value.hpp"
#include <charconv>
#include <string_view>
#include <system_error>

namespace ebb {
namespace {

template <class Number>
std::optional<Number> parsed(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

template <class Alternative, class Variant>
std::optional<Alternative> held(const Variant& value) {
  const auto* found = std::get_if<Alternative>(&value);
  return found ? std::optional<Alternative>(*found) : std::nullopt;
}

}  // namespace

std::optional<bool> written_value::flag() const {
  if (!is_bare()) return held<bool>(value_);
  if (as_written_ == "true") return true;
  if (as_written_ == "false") return false;
  return std::nullopt;
}

std::optional<std::int64_t> written_value::whole() const {
  return is_bare() ? parsed<std::int64_t>(as_written_) : held<std::int64_t>(value_);
}

std::optional<double> written_value::number() const {
  if (is_bare()) return parsed<double>(as_written_);
  if (const auto integer = held<std::int64_t>(value_)) return static_cast<double>(*integer);
  return held<double>(value_);
}

std::optional<std::string> written_value::text() const {
  return is_bare() ? std::optional<std::string>(as_written_) : held<std::string>(value_);
}

written_value::list written_value::items() const {
  if (const auto* several = std::get_if<list>(&value_)) return *several;
  if (!is_bare()) return {*this};
  list parts;
  if (as_written_.empty()) return parts;
  for (std::size_t begin = 0, comma = 0; comma != std::string::npos; begin = comma + 1) {
    comma = as_written_.find(',', begin);
    parts.emplace_back(bare{}, as_written_.substr(begin, comma - begin));
  }
  return parts;
}

}  // namespace ebb

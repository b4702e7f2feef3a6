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

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// What stands between an opening and a closing character, or the text as it is.
std::string_view unwrapped(std::string_view text, char open, char close) {
  text = without_spaces(text);
  const bool wrapped = text.size() >= 2 && text.front() == open && text.back() == close;
  return wrapped ? text.substr(1, text.size() - 2) : text;
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
  if (!is_bare()) return held<std::string>(value_);
  const bool in_quotes = as_written_.size() >= 2 && as_written_.front() == '"' && as_written_.back() == '"';
  return in_quotes ? as_written_.substr(1, as_written_.size() - 2) : as_written_;
}

written_value::list written_value::items() const {
  if (const auto* several = std::get_if<list>(&value_)) return *several;
  if (!is_bare()) return {*this};
  list parts;
  const std::string_view inside = unwrapped(as_written_, '[', ']');
  if (inside.empty()) return parts;
  for (std::size_t begin = 0, comma = 0; comma != std::string::npos; begin = comma + 1) {
    comma = inside.find(',', begin);
    parts.emplace_back(bare{}, std::string(unwrapped(inside.substr(begin, comma - begin), '"', '"')));
  }
  return parts;
}

}  // namespace ebb

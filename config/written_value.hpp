// config/written_value.hpp: a value as a user wrote it, before a setting's key says what it has to be.
//
// TOML gives values with types. The environment and the command line give bare text, which may be read as any type: 4 is a
// number to `parallel` and a name to `model`, and a list is written with commas: host,host.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ebb {

class written_value {
 public:
  using list = std::vector<written_value>;
  struct bare {};   // the text alone counts
  struct other {};  // a table, a date, a time: no key allows one

  // `as_written` is how an error shows the value; for bare text it is the value.
  template <class Value>
  written_value(Value value, std::string as_written)
      : value_(std::in_place_type<Value>, std::move(value)), as_written_(std::move(as_written)) {}

  // Nothing when the value is not of that type. A whole number is a number too.
  std::optional<bool> flag() const;
  std::optional<std::int64_t> whole() const;
  std::optional<double> number() const;
  std::optional<std::string> text() const;  // bare text may stand in double quotes, as in TOML
  // A single value is a list of one; empty bare text is an empty list. Bare text is cut at commas, and may also be written as in TOML:
  // ["host", "host"].
  list items() const;

  const std::string& as_written() const noexcept { return as_written_; }

 private:
  bool is_bare() const noexcept { return std::holds_alternative<bare>(value_); }

  std::variant<bare, other, bool, std::int64_t, double, std::string, list> value_;
  std::string as_written_;
};

}  // namespace ebb

// model/jinja/value.hpp: what an expression of a template yields, with Python's meaning of truth, equality and printing.
//
// Values are immutable and shared, so copies are cheap; only namespaces change, and they belong to one run. Every list and dict
// knows how deep it is nested, so that whatever walks or destroys it recurses no further than limits::chat_value_depth_max.
#pragma once
#include "model/jinja/text.hpp"
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ebb::model::jinja {

class value;
struct statement;
struct scope;
struct loop_state;

struct undefined {
  std::string name;  // what was looked for
};
struct none {};
struct sequence {
  std::vector<value> items;
  bool is_tuple = false;
  std::size_t depth = 1;
};
struct dictionary {
  std::vector<std::pair<value, value>> entries;  // in the order of insertion; keys differ
  std::size_t depth = 1;
};
struct name_space {
  std::vector<std::pair<std::string, value>> members;
};
// A macro, a method bound to its object, or a global of the language.
struct callable {
  std::string name;
  std::shared_ptr<const value> receiver;  // of a method
  const statement* macro = nullptr;       // of a macro or a call block
  scope* home = nullptr;                  // in which that was defined
  std::size_t depth = 1;
};

class value {
 public:
  using held = std::variant<undefined, none, bool, std::int64_t, double, std::shared_ptr<const text>, std::shared_ptr<const sequence>,
                            std::shared_ptr<const dictionary>, name_space*, loop_state*, std::shared_ptr<const callable>>;

  value() = default;  // undefined
  value(bool truth) : held_(truth) {}
  value(std::int64_t number) : held_(number) {}
  value(double number) : held_(number) {}
  value(text words) : held_(std::make_shared<const text>(std::move(words))) {}
  value(std::string words) : value(text(std::move(words))) {}
  value(const char* words) : value(std::string(words)) {}
  value(name_space* members) : held_(members) {}
  value(loop_state* state) : held_(state) {}
  value(callable called);

  static value nothing() { return value(held(none{})); }
  static value missing(std::string name) { return value(held(undefined{std::move(name)})); }
  static value list(std::vector<value> items);
  static value tuple(std::vector<value> items);
  // Keys that come again replace the value of the first.
  static value dict(std::vector<std::pair<value, value>> entries);

  template <class T>
  const T* get() const noexcept {
    return std::get_if<T>(&held_);
  }
  const text* as_text() const noexcept { return shared<text>(); }
  const sequence* as_sequence() const noexcept { return shared<sequence>(); }
  const dictionary* as_dict() const noexcept { return shared<dictionary>(); }
  const callable* as_callable() const noexcept { return shared<callable>(); }
  bool is_undefined() const noexcept { return get<undefined>() != nullptr; }
  bool is_none() const noexcept { return get<none>() != nullptr; }
  bool is_integer() const noexcept { return get<std::int64_t>() != nullptr; }
  bool is_number() const noexcept { return is_integer() || get<double>() || get<bool>(); }  // as in Python, a bool is a number

  // Pre: is_number().
  double as_double() const noexcept;
  // Of integers and bools; none else.
  const std::int64_t* as_index(std::int64_t& room) const noexcept;

  std::size_t depth() const noexcept;       // 0 for what holds no values
  std::size_t size_bytes() const noexcept;  // of a text; of others, what looking at their first level costs
  bool truth() const noexcept;
  bool any_foreign() const noexcept;
  std::string_view type_name() const noexcept;  // Python's, for errors

 private:
  explicit value(held what) : held_(std::move(what)) {}
  template <class T>
  const T* shared() const noexcept {
    const auto* pointer = std::get_if<std::shared_ptr<const T>>(&held_);
    return pointer ? pointer->get() : nullptr;
  }

  held held_;
};

bool equal(const value& left, const value& right) noexcept;
const value* find_key(const dictionary& entries, const value& key) noexcept;
const value* find_key(const dictionary& entries, std::string_view key) noexcept;

// How many values and 64 bytes of text there are in all, at most `stop`: what walking through costs.
std::size_t weight(const value& of, std::size_t stop) noexcept;

// As Python's str() and repr() write it.
text to_text(const value& of);
std::string repr(const value& of);
std::string float_text(double number);

}  // namespace ebb::model::jinja

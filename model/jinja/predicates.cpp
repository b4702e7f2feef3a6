#include "model/jinja/predicates.hpp"
#include "model/jinja/filters.hpp"
#include "model/jinja/letters.hpp"
#include "model/jinja/lookup.hpp"
#include "model/jinja/operators.hpp"
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace ebb::model::jinja {
namespace {

struct comparing {
  std::string_view name, symbol;
};
constexpr std::array comparisons = {
    comparing{"equalto", "=="}, comparing{"eq", "=="}, comparing{"==", "=="},      comparing{"ne", "!="},
    comparing{"!=", "!="},      comparing{"lt", "<"},  comparing{"lessthan", "<"}, comparing{"<", "<"},
    comparing{"le", "<="},      comparing{"<=", "<="}, comparing{"gt", ">"},       comparing{"greaterthan", ">"},
    comparing{">", ">"},        comparing{"ge", ">="}, comparing{">=", ">="},      comparing{"in", "in"}};

constexpr std::array<std::string_view, 24> plain = {
    "defined", "undefined", "none", "string",   "mapping", "iterable", "sequence",    "number", "integer", "float", "boolean", "true",
    "false",   "odd",       "even", "callable", "upper",   "lower",    "divisibleby", "sameas", "filter",  "test",  "escaped", "safe"};

bool in_case(std::string_view words, bool upper) noexcept {
  const bool wrong = std::ranges::any_of(words, [&](char c) { return upper ? (c >= 'a' && c <= 'z') : (c >= 'A' && c <= 'Z'); });
  return !wrong && std::ranges::any_of(words, is_letter);
}

bool is_multiple(run& in, const value& of, std::int64_t divisor) {
  const value left = apply_binary(in, "%", of, value(divisor));
  return !in.failed() && left.as_double() == 0;
}

bool is_remainder_one(run& in, const value& of) {
  const value left = apply_binary(in, "%", of, value(std::int64_t{2}));
  return !in.failed() && left.as_double() == 1;
}

bool same(const value& left, const value& right) noexcept {
  if (left.is_number() && right.is_number() && left.type_name() != right.type_name()) return false;
  return equal(left, right);
}

const comparing* find_comparison(std::string_view name) noexcept {
  const auto found = std::ranges::find(comparisons, name, &comparing::name);
  return found == comparisons.end() ? nullptr : &*found;
}

}  // namespace

bool is_predicate(std::string_view name) noexcept { return find_comparison(name) || std::ranges::find(plain, name) != plain.end(); }

bool apply_predicate(run& in, std::string_view name, const value& of, const arguments& given) {
  const std::string what = "the test \"" + std::string(name) + "\"";
  if (const comparing* found = find_comparison(name)) {
    return given.fit(in, what, {"other"}, 1) &&
           apply_comparison(in, found->symbol, of, given.positional.empty() ? *given.find(0, "other") : given.positional[0]);
  }
  if (name == "divisibleby") {
    if (!given.fit(in, what, {"num"}, 1)) return false;
    const auto divisor = to_integer(in, *given.find(0, "num"), "num");
    return divisor && is_multiple(in, of, *divisor);
  }
  if (name == "sameas") return given.fit(in, what, {"other"}, 1) && in.walk(of) && same(of, *given.find(0, "other"));
  if (!given.fit(in, what, {})) return false;
  const bool* truth = of.get<bool>();
  const text* words = of.as_text();
  if (name == "defined") return !of.is_undefined();
  if (name == "undefined") return of.is_undefined();
  if (name == "none") return of.is_none();
  if (name == "string") return words;
  if (name == "mapping") return of.as_dict();
  if (name == "iterable") return of.as_sequence() || of.as_dict() || words || of.is_undefined() || of.get<loop_state*>();
  if (name == "sequence") return of.as_sequence() || of.as_dict() || words || of.is_undefined();
  if (name == "number") return of.is_number();
  if (name == "integer") return of.is_integer();
  if (name == "float") return of.get<double>();
  if (name == "boolean") return truth;
  if (name == "true") return truth && *truth;
  if (name == "false") return truth && !*truth;
  if (name == "odd") return is_remainder_one(in, of);
  if (name == "even") return is_multiple(in, of, 2);
  if (name == "callable") return of.as_callable();
  if (name == "filter") return words && is_filter(words->view());
  if (name == "test") return words && is_predicate(words->view());
  if (name == "upper" || name == "lower") return words && in.look(words->size()) && in_case(words->view(), name == "upper");
  return false;  // escaped, safe: without autoescape nothing is
}

}  // namespace ebb::model::jinja

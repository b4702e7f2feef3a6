#include "model/jinja/expression_parser.hpp"
#include "model/jinja/filters.hpp"
#include "model/jinja/predicates.hpp"

namespace ebb::model::jinja {

std::vector<expression_ptr> expression_parser::one(expression_ptr part) {
  std::vector<expression_ptr> parts;
  parts.push_back(std::move(part));
  return parts;
}

std::vector<expression_ptr> expression_parser::two(expression_ptr left, expression_ptr right) {
  auto parts = one(std::move(left));
  parts.push_back(std::move(right));
  return parts;
}

expression_ptr expression_parser::make(node what, place at, std::string name, std::vector<expression_ptr> parts) {
  auto out = std::make_unique<expression>();
  out->what = what;
  out->at = at;
  out->name = std::move(name);
  out->parts = std::move(parts);
  measure(*out);
  return out;
}

void expression_parser::measure(expression& of) {
  for (const expression_ptr& part : of.parts) {
    if (part) of.depth = std::max(of.depth, part->depth + 1);
  }
  for (const auto& [name, part] : of.named) of.depth = std::max(of.depth, part->depth + 1);
  if (of.depth > limits::chat_syntax_depth_max) {
    fail_at(of.at, errc::too_large, "nested deeper than " + std::to_string(limits::chat_syntax_depth_max));
  }
}

expression_ptr expression_parser::make_constant(place at, value held) {
  expression_ptr out = make(node::constant, at, "", {});
  out->constant = std::move(held);
  return out;
}

bool expression_parser::ends_tuple() const noexcept {
  return now().what == kind::block_end || now().what == kind::output_end || now().what == kind::end || is_symbol(")") || is_name("in");
}

expression_ptr expression_parser::parse_tuple(bool with_choice, bool in_brackets) {
  const place at = now().at;
  std::vector<expression_ptr> items;
  bool is_tuple = false;
  while (!failed()) {
    if (!items.empty()) expect_symbol(",");
    if (ends_tuple()) break;
    items.push_back(with_choice ? parse_expression() : parse_either());
    if (!is_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (items.empty() && !in_brackets) fail_here("expected an expression, found " + found());
  return make(node::tuple, at, "", std::move(items));
}

expression_ptr expression_parser::parse_expression() {
  const level deeper(*this);
  expression_ptr out = parse_either();
  while (is_name("if")) {
    const place at = now().at;
    skip();
    expression_ptr condition = parse_either();
    expression_ptr otherwise = take_name("else") ? parse_expression() : nullptr;
    auto parts = two(std::move(condition), std::move(out));
    parts.push_back(std::move(otherwise));
    out = make(node::choice, at, "", std::move(parts));
  }
  return out;
}

template <class Operand>
expression_ptr expression_parser::parse_chain(std::string_view word, node what, Operand operand) {
  expression_ptr left = operand();
  while (is_name(word)) {
    const place at = now().at;
    skip();
    expression_ptr right = operand();
    left = make(what, at, "", two(std::move(left), std::move(right)));
  }
  return left;
}

expression_ptr expression_parser::parse_either() {
  return parse_chain("or", node::either, [this] { return parse_both(); });
}

expression_ptr expression_parser::parse_both() {
  return parse_chain("and", node::both, [this] { return parse_not(); });
}

expression_ptr expression_parser::parse_not() {
  const level deeper(*this);
  const place at = now().at;
  if (take_name("not")) return make(node::negation, at, "not", one(parse_not()));
  return parse_comparison();
}

std::optional<std::string> expression_parser::take_comparison() {
  for (const std::string_view symbol : {"==", "!=", "<", "<=", ">", ">="}) {
    if (take_symbol(symbol)) return std::string(symbol);
  }
  if (take_name("in")) return "in";
  if (is_name("not") && ahead().what == kind::name && ahead().words == "in") {
    skip();
    skip();
    return "not in";
  }
  return std::nullopt;
}

expression_ptr expression_parser::parse_comparison() {
  const place at = now().at;
  expression_ptr first = parse_sum();
  std::vector<std::string> operators;
  std::vector<expression_ptr> operands;
  while (auto symbol = take_comparison()) {
    operators.push_back(*std::move(symbol));
    operands.push_back(parse_sum());
  }
  if (operators.empty()) return first;
  operands.insert(operands.begin(), std::move(first));
  expression_ptr out = make(node::comparison, at, "", std::move(operands));
  out->operators = std::move(operators);
  return out;
}

template <class Operand>
expression_ptr expression_parser::parse_binary(words symbols, Operand operand) {
  expression_ptr left = operand();
  while (!failed()) {
    const place at = now().at;
    const auto symbol = std::ranges::find_if(symbols, [&](std::string_view each) { return is_symbol(each); });
    if (symbol == symbols.end()) break;
    skip();
    expression_ptr right = operand();
    left = make(node::binary, at, std::string(*symbol), two(std::move(left), std::move(right)));
  }
  return left;
}

expression_ptr expression_parser::parse_sum() {
  return parse_binary({"+", "-"}, [&] { return parse_joined(); });
}

expression_ptr expression_parser::parse_joined() {
  const place at = now().at;
  auto operands = one(parse_product());
  while (take_symbol("~")) operands.push_back(parse_product());
  if (operands.size() == 1) return std::move(operands.front());
  return make(node::joined, at, "", std::move(operands));
}

expression_ptr expression_parser::parse_product() {
  return parse_binary({"*", "/", "//", "%"}, [&] { return parse_power(); });
}

expression_ptr expression_parser::parse_power() {
  return parse_binary({"**"}, [&] { return parse_unary(true); });
}

expression_ptr expression_parser::parse_unary(bool with_filters) {
  const level deeper(*this);
  const place at = now().at;
  expression_ptr out;
  if (is_symbol("-") || is_symbol("+")) {
    std::string sign = now().words;
    skip();
    out = make(node::negation, at, std::move(sign), one(parse_unary(false)));
  } else {
    out = parse_primary();
  }
  out = parse_postfix(std::move(out));
  return with_filters ? parse_filters(std::move(out)) : std::move(out);
}

expression_ptr expression_parser::parse_primary() {
  const place at = now().at;
  switch (now().what) {
    case kind::name: return parse_named();
    case kind::string: {
      std::string joined;
      for (; now().what == kind::string; skip()) joined += now().words;
      return make_constant(at, std::move(joined));
    }
    case kind::integer: {
      const std::int64_t number = now().integer;
      skip();
      return make_constant(at, number);
    }
    case kind::real: {
      const double number = now().real;
      skip();
      return make_constant(at, number);
    }
    default: break;
  }
  if (take_symbol("(")) {
    expression_ptr inner = parse_tuple(true, true);
    expect_symbol(")");
    return inner;
  }
  if (take_symbol("[")) return parse_items(at);
  if (take_symbol("{")) return parse_entries(at);
  fail_here("expected an expression, found " + found());
  return make_constant(at, value());
}

expression_ptr expression_parser::parse_named() {
  const place at = now().at;
  std::string name = now().words;
  skip();
  if (name == "true" || name == "True") return make_constant(at, true);
  if (name == "false" || name == "False") return make_constant(at, false);
  if (name == "none" || name == "None") return make_constant(at, value::nothing());
  return make(node::name, at, std::move(name), {});
}

expression_ptr expression_parser::parse_items(place at) {
  std::vector<expression_ptr> items;
  while (!failed() && !is_symbol("]")) {
    if (!items.empty()) expect_symbol(",");
    if (is_symbol("]")) break;
    items.push_back(parse_expression());
  }
  expect_symbol("]");
  return make(node::list, at, "", std::move(items));
}

expression_ptr expression_parser::parse_entries(place at) {
  std::vector<expression_ptr> entries;
  while (!failed() && !is_symbol("}")) {
    if (!entries.empty()) expect_symbol(",");
    if (is_symbol("}")) break;
    entries.push_back(parse_expression());
    expect_symbol(":");
    entries.push_back(parse_expression());
  }
  expect_symbol("}");
  return make(node::dict, at, "", std::move(entries));
}

expression_ptr expression_parser::parse_postfix(expression_ptr out) {
  while (!failed()) {
    const place at = now().at;
    if (take_symbol(".")) {
      if (now().what == kind::integer) {
        expression_ptr key = make_constant(at, now().integer);
        skip();
        out = make(node::item, at, "", two(std::move(out), std::move(key)));
      } else {
        std::string name = expect_name();
        out = make(node::attribute, at, std::move(name), one(std::move(out)));
      }
    } else if (take_symbol("[")) {
      out = parse_subscript(std::move(out), at);
    } else if (is_symbol("(")) {
      out = parse_call(std::move(out));
    } else {
      break;
    }
  }
  return out;
}

expression_ptr expression_parser::parse_subscript(expression_ptr object, place at) {
  auto parts = one(std::move(object));
  const auto at_end = [&] { return is_symbol(":") || is_symbol("]"); };
  parts.push_back(at_end() ? nullptr : parse_expression());
  if (!is_symbol(":")) {
    if (!parts[1]) fail_here("expected an expression, found " + found());
    if (is_symbol(",")) fail_here("several keys in one subscript are not supported");
    expect_symbol("]");
    return make(node::item, at, "", std::move(parts));
  }
  for (int bound = 0; bound < 2; ++bound) {
    const bool given = take_symbol(":");
    parts.push_back(given && !at_end() ? parse_expression() : nullptr);
  }
  expect_symbol("]");
  return make(node::slice, at, "", std::move(parts));
}

void expression_parser::parse_arguments(expression& out) {
  expect_symbol("(");
  bool first = true;
  while (!failed() && !is_symbol(")")) {
    if (!first) expect_symbol(",");
    first = false;
    if (is_symbol(")")) break;
    if (is_symbol("*") || is_symbol("**")) return fail_here("unpacking arguments with * is not supported");
    if (now().what == kind::name && ahead().what == kind::symbol && ahead().words == "=") {
      std::string name = expect_name();
      skip();
      out.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!out.named.empty()) return fail_here("a positional argument follows a named one");
      out.parts.push_back(parse_expression());
    }
  }
  expect_symbol(")");
  measure(out);
}

expression_ptr expression_parser::parse_call(expression_ptr called) {
  expression_ptr out = make(node::call, now().at, "", one(std::move(called)));
  parse_arguments(*out);
  return out;
}

expression_ptr expression_parser::parse_filters(expression_ptr out, bool begins) {
  while (!failed()) {
    if (std::exchange(begins, false) || take_symbol("|")) {
      out = parse_filter(std::move(out));
    } else if (out && is_name("is")) {
      skip();
      out = parse_test(std::move(out));
    } else if (out && is_symbol("(")) {
      out = parse_call(std::move(out));
    } else {
      break;
    }
  }
  return out;
}

expression_ptr expression_parser::parse_filter(expression_ptr subject) {
  const place at = now().at;
  std::string name = expect_name();
  if (!is_filter(name) && conditions_ == 0) fail_at(at, errc::bad_value, "the filter " + in_quotes(name) + " is not supported");
  expression_ptr out = make(node::filter, at, std::move(name), one(std::move(subject)));
  if (is_symbol("(")) parse_arguments(*out);
  return out;
}

bool expression_parser::begins_argument() const noexcept {
  if (now().what == kind::string || now().what == kind::integer || now().what == kind::real) return true;
  if (is_symbol("[") || is_symbol("{")) return true;
  return now().what == kind::name && !is_any_name({"else", "or", "and", "if", "in", "not", "recursive"});
}

expression_ptr expression_parser::parse_test(expression_ptr subject) {
  const place at = now().at;
  const bool negated = take_name("not");
  std::string name = expect_name();
  if (!is_predicate(name) && conditions_ == 0) fail_at(at, errc::bad_value, "the test " + in_quotes(name) + " is not supported");
  expression_ptr out = make(node::test, at, std::move(name), one(std::move(subject)));
  if (is_symbol("(")) {
    parse_arguments(*out);
  } else if (is_name("is")) {
    fail_here("tests cannot be chained with \"is\"");
  } else if (begins_argument()) {
    out->parts.push_back(parse_postfix(parse_primary()));
    measure(*out);
  }
  return negated ? make(node::negation, at, "not", one(std::move(out))) : std::move(out);
}

}  // namespace ebb::model::jinja

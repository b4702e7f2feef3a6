#include "model/jinja/parser.hpp"
#include "config/utf8.hpp"
#include "model/jinja/filters.hpp"
#include "model/jinja/lexer.hpp"
#include "model/jinja/predicates.hpp"
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

namespace ebb::model::jinja {
namespace {

using node = expression::kind;
using form = statement::kind;
using kind = token::kind;
using words = std::initializer_list<std::string_view>;

// Recursive descent in Jinja's own order of precedence. The first error stays; after it every token is the end.
class parser {
 public:
  explicit parser(std::vector<token> tokens) : tokens_(std::move(tokens)) {}

  result<block> parse_all() {
    block all = parse_block({});
    if (failure_) return fail(*std::move(failure_));
    return all;
  }

 private:
  // --- tokens
  const token& now() const noexcept { return failure_ ? tokens_.back() : tokens_[position_]; }
  const token& ahead() const noexcept { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  void skip() noexcept {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  bool is_symbol(std::string_view symbol) const noexcept { return now().what == kind::symbol && now().words == symbol; }
  bool is_name(std::string_view name) const noexcept { return now().what == kind::name && now().words == name; }
  bool is_any_name(words names) const noexcept {
    return std::ranges::any_of(names, [&](std::string_view name) { return is_name(name); });
  }
  bool take_symbol(std::string_view symbol) { return is_symbol(symbol) ? (skip(), true) : false; }
  bool take_name(std::string_view name) { return is_name(name) ? (skip(), true) : false; }

  void fail_at(place at, errc code, const std::string& what) {
    if (!failure_) failure_ = error{code, "chat template, " + to_string(at) + ": " + what};
  }
  void fail_here(const std::string& what) { fail_at(now().at, errc::bad_value, what); }
  std::string found() const {
    switch (now().what) {
      case kind::end: return "the end of the template";
      case kind::block_end:
      case kind::output_end: return "the end of the tag";
      default: return in_quotes(now().words);
    }
  }
  void expect(kind what, std::string_view wanted) {
    if (now().what != what) return fail_here("expected " + std::string(wanted) + ", found " + found());
    skip();
  }
  void expect_symbol(std::string_view symbol) {
    if (!take_symbol(symbol)) fail_here("expected " + in_quotes(symbol) + ", found " + found());
  }
  std::string expect_name() {
    std::string name = now().words;
    expect(kind::name, "a name");
    return name;
  }
  void end_block() { expect(kind::block_end, "the end of the tag"); }

  // --- depth of the parser's own recursion
  class level {
   public:
    explicit level(parser& of) : of_(of) {
      if (++of_.depth_ > limits::chat_syntax_depth_max) {
        of_.fail_at(of_.now().at, errc::too_large, "nested deeper than " + std::to_string(limits::chat_syntax_depth_max));
      }
    }
    ~level() { --of_.depth_; }

   private:
    parser& of_;
  };

  // --- statements
  block parse_block(words ends) {
    const level deeper(*this);
    block out;
    while (!failure_ && now().what != kind::end) {
      if (now().what == kind::block_begin && ahead().what == kind::name &&
          std::ranges::any_of(ends, [&](std::string_view end) { return ahead().words == end; })) {
        skip();
        return out;
      }
      parse_statement(out);
    }
    if (ends.size() != 0) fail_here("expected {% " + std::string(*ends.begin()) + " %}, found the end of the template");
    return out;
  }

  statement& add(block& out, form what, place at) {
    out.emplace_back();
    out.back().what = what;
    out.back().at = at;
    return out.back();
  }

  void parse_statement(block& out) {
    const place at = now().at;
    if (now().what == kind::text) {
      add(out, form::text, at).words = text(now().words);
      return skip();
    }
    if (now().what == kind::output_begin) {
      skip();
      add(out, form::output, at).source = parse_tuple();
      return expect(kind::output_end, "the end of the tag");
    }
    expect(kind::block_begin, "a tag");
    const std::string tag = now().what == kind::name ? now().words : "";
    if (!known_tag(tag)) return fail_here("the tag " + in_quotes(tag) + " is not supported");
    skip();
    parse_tag(tag, out, at);
  }

  static bool known_tag(std::string_view tag) {
    static constexpr std::string_view tags[] = {"if", "for", "set", "macro", "call", "filter", "with", "generation", "break", "continue"};
    return std::ranges::find(tags, tag) != std::end(tags);
  }

  void parse_tag(std::string_view tag, block& out, place at) {
    if (tag == "if") return parse_if(add(out, form::choice, at));
    if (tag == "for") return parse_for(add(out, form::loop, at));
    if (tag == "set") return parse_set(add(out, form::assign, at));
    if (tag == "macro") return parse_macro(add(out, form::macro, at));
    if (tag == "call") return parse_call_block(add(out, form::call_block, at));
    if (tag == "filter") return parse_filter_block(add(out, form::filtered, at));
    if (tag == "with") return parse_with(add(out, form::with, at));
    if (tag == "generation") return parse_body(add(out, form::scoped, at), "endgeneration");
    if (loops_ == 0) return fail_here("\"" + std::string(tag) + "\" outside of a loop");
    add(out, tag == "break" ? form::leave : form::next, at);
    end_block();
  }

  // Up to the tag `end`, which is read too.
  void parse_body(statement& out, std::string_view end) {
    end_block();
    out.body = parse_block({end});
    skip();
    end_block();
  }

  void parse_if(statement& out) {
    ++conditions_;
    do {
      expression_ptr condition = parse_tuple(false);
      end_block();
      out.branches.emplace_back(std::move(condition), parse_block({"endif", "elif", "else"}));
    } while (take_name("elif"));
    if (take_name("else")) {
      end_block();
      out.branches.emplace_back(nullptr, parse_block({"endif"}));
    }
    --conditions_;
    skip();
    end_block();
  }

  void parse_for(statement& out) {
    out.target = parse_targets();
    if (!take_name("in")) fail_here("expected \"in\", found " + found());
    out.source = parse_tuple(false);
    if (take_name("if")) out.condition = parse_expression();
    if (is_name("recursive")) fail_here("recursive loops are not supported");
    end_block();
    ++loops_;
    out.body = parse_block({"endfor", "else"});
    --loops_;
    if (take_name("else")) {
      end_block();
      out.otherwise = parse_block({"endfor"});
    }
    skip();
    end_block();
  }

  void parse_set(statement& out) {
    out.target = parse_targets(true);
    if (take_symbol("=")) {
      out.source = parse_tuple();
      return end_block();
    }
    out.what = form::capture;
    if (is_symbol("|")) out.source = parse_filters(nullptr);
    parse_inner(out, "endset");
  }

  // A body of its own: a loop around it cannot be left from within.
  void parse_inner(statement& out, std::string_view end) {
    const std::size_t loops = std::exchange(loops_, 0);
    parse_body(out, end);
    loops_ = loops;
  }

  void parse_parameters(statement& out) {
    expect_symbol("(");
    while (!failure_ && !is_symbol(")")) {
      if (!out.parameters.empty()) expect_symbol(",");
      if (is_symbol(")")) break;
      std::string name = expect_name();
      const bool has_default = take_symbol("=");
      if (!has_default && !out.parameters.empty() && out.parameters.back().second)
        fail_here("a parameter without default follows one with");
      expression_ptr fallback = has_default ? parse_expression() : nullptr;
      out.parameters.emplace_back(std::move(name), std::move(fallback));
    }
    expect_symbol(")");
  }

  void parse_macro(statement& out) {
    out.name = expect_name();
    parse_parameters(out);
    parse_inner(out, "endmacro");
  }

  void parse_call_block(statement& out) {
    if (is_symbol("(")) parse_parameters(out);
    out.source = parse_expression();
    if (!failure_ && out.source->what != node::call) fail_here("{% call %} needs a call");
    parse_inner(out, "endcall");
  }

  void parse_filter_block(statement& out) {
    out.source = parse_filters(nullptr, true);
    parse_inner(out, "endfilter");
  }

  void parse_with(statement& out) {
    while (!failure_ && now().what != kind::block_end) {
      if (!out.assignments.empty()) expect_symbol(",");
      expression_ptr target = parse_targets();
      expect_symbol("=");
      expression_ptr source = parse_expression();
      out.assignments.emplace_back(std::move(target), std::move(source));
    }
    parse_body(out, "endwith");
  }

  // Names, a tuple of them, or (where allowed) an attribute of a namespace.
  expression_ptr parse_targets(bool attributes = false) {
    const place at = now().at;
    std::vector<expression_ptr> targets;
    bool is_tuple = false;
    while (!failure_) {
      targets.push_back(parse_target(attributes));
      if (!take_symbol(",")) break;
      is_tuple = true;
      if (now().what != kind::name && !is_symbol("(")) break;
      if (is_name("in")) break;
    }
    if (!is_tuple && targets.size() == 1) return std::move(targets.front());
    return make(node::tuple, at, "", std::move(targets));
  }

  expression_ptr parse_target(bool attributes) {
    const level deeper(*this);
    const place at = now().at;
    if (take_symbol("(")) {
      expression_ptr inner = parse_targets();
      expect_symbol(")");
      return inner;
    }
    std::string name = expect_name();
    if (is_reserved(name)) fail_at(at, errc::bad_value, "cannot assign to " + in_quotes(name));
    expression_ptr target = make(node::name, at, std::move(name), {});
    if (!attributes || !take_symbol(".")) return target;
    std::string member = expect_name();
    return make(node::attribute, at, std::move(member), one(std::move(target)));
  }

  static bool is_reserved(std::string_view name) {
    static constexpr std::string_view names[] = {"true", "True", "false", "False", "none", "None", "not",
                                                 "and",  "or",   "in",    "is",    "if",   "else"};
    return std::ranges::find(names, name) != std::end(names);
  }

  // --- expressions
  static std::vector<expression_ptr> one(expression_ptr part) {
    std::vector<expression_ptr> parts;
    parts.push_back(std::move(part));
    return parts;
  }
  static std::vector<expression_ptr> two(expression_ptr left, expression_ptr right) {
    auto parts = one(std::move(left));
    parts.push_back(std::move(right));
    return parts;
  }

  expression_ptr make(node what, place at, std::string name, std::vector<expression_ptr> parts) {
    auto out = std::make_unique<expression>();
    out->what = what;
    out->at = at;
    out->name = std::move(name);
    out->parts = std::move(parts);
    measure(*out);
    return out;
  }

  void measure(expression& of) {
    for (const expression_ptr& part : of.parts) {
      if (part) of.depth = std::max(of.depth, part->depth + 1);
    }
    for (const auto& [name, part] : of.named) of.depth = std::max(of.depth, part->depth + 1);
    if (of.depth > limits::chat_syntax_depth_max) {
      fail_at(of.at, errc::too_large, "nested deeper than " + std::to_string(limits::chat_syntax_depth_max));
    }
  }

  expression_ptr make_constant(place at, value held) {
    expression_ptr out = make(node::constant, at, "", {});
    out->constant = std::move(held);
    return out;
  }

  bool ends_tuple() const noexcept {
    return now().what == kind::block_end || now().what == kind::output_end || now().what == kind::end || is_symbol(")") || is_name("in");
  }

  // a, b, c without brackets, or the one expression.
  expression_ptr parse_tuple(bool with_choice = true, bool in_brackets = false) {
    const place at = now().at;
    std::vector<expression_ptr> items;
    bool is_tuple = false;
    while (!failure_) {
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

  expression_ptr parse_expression() {
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

  expression_ptr parse_either() {
    expression_ptr left = parse_both();
    while (is_name("or")) {
      const place at = now().at;
      skip();
      expression_ptr right = parse_both();
      left = make(node::either, at, "", two(std::move(left), std::move(right)));
    }
    return left;
  }

  expression_ptr parse_both() {
    expression_ptr left = parse_not();
    while (is_name("and")) {
      const place at = now().at;
      skip();
      expression_ptr right = parse_not();
      left = make(node::both, at, "", two(std::move(left), std::move(right)));
    }
    return left;
  }

  expression_ptr parse_not() {
    const level deeper(*this);
    const place at = now().at;
    if (take_name("not")) return make(node::negation, at, "not", one(parse_not()));
    return parse_comparison();
  }

  std::optional<std::string> take_comparison() {
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

  expression_ptr parse_comparison() {
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
  expression_ptr parse_binary(words symbols, Operand operand) {
    expression_ptr left = operand();
    while (!failure_) {
      const place at = now().at;
      const auto symbol = std::ranges::find_if(symbols, [&](std::string_view each) { return is_symbol(each); });
      if (symbol == symbols.end()) break;
      skip();
      expression_ptr right = operand();
      left = make(node::binary, at, std::string(*symbol), two(std::move(left), std::move(right)));
    }
    return left;
  }

  expression_ptr parse_sum() {
    return parse_binary({"+", "-"}, [&] { return parse_joined(); });
  }

  expression_ptr parse_joined() {
    const place at = now().at;
    auto operands = one(parse_product());
    while (take_symbol("~")) operands.push_back(parse_product());
    if (operands.size() == 1) return std::move(operands.front());
    return make(node::joined, at, "", std::move(operands));
  }

  expression_ptr parse_product() {
    return parse_binary({"*", "/", "//", "%"}, [&] { return parse_power(); });
  }

  expression_ptr parse_power() {
    return parse_binary({"**"}, [&] { return parse_unary(true); });
  }

  expression_ptr parse_unary(bool with_filters) {
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

  expression_ptr parse_primary() {
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

  expression_ptr parse_named() {
    const place at = now().at;
    std::string name = now().words;
    skip();
    if (name == "true" || name == "True") return make_constant(at, true);
    if (name == "false" || name == "False") return make_constant(at, false);
    if (name == "none" || name == "None") return make_constant(at, value::nothing());
    return make(node::name, at, std::move(name), {});
  }

  expression_ptr parse_items(place at) {
    std::vector<expression_ptr> items;
    while (!failure_ && !is_symbol("]")) {
      if (!items.empty()) expect_symbol(",");
      if (is_symbol("]")) break;
      items.push_back(parse_expression());
    }
    expect_symbol("]");
    return make(node::list, at, "", std::move(items));
  }

  expression_ptr parse_entries(place at) {
    std::vector<expression_ptr> entries;
    while (!failure_ && !is_symbol("}")) {
      if (!entries.empty()) expect_symbol(",");
      if (is_symbol("}")) break;
      entries.push_back(parse_expression());
      expect_symbol(":");
      entries.push_back(parse_expression());
    }
    expect_symbol("}");
    return make(node::dict, at, "", std::move(entries));
  }

  expression_ptr parse_postfix(expression_ptr out) {
    while (!failure_) {
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

  expression_ptr parse_subscript(expression_ptr object, place at) {
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

  void parse_arguments(expression& out) {
    expect_symbol("(");
    bool first = true;
    while (!failure_ && !is_symbol(")")) {
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

  expression_ptr parse_call(expression_ptr called) {
    expression_ptr out = make(node::call, now().at, "", one(std::move(called)));
    parse_arguments(*out);
    return out;
  }

  // Filters and tests behind `out`. Of a filter block, whose subject is null, the first filter stands without "|".
  expression_ptr parse_filters(expression_ptr out, bool begins = false) {
    while (!failure_) {
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

  expression_ptr parse_filter(expression_ptr subject) {
    const place at = now().at;
    std::string name = expect_name();
    if (!is_filter(name) && conditions_ == 0) fail_at(at, errc::bad_value, "the filter " + in_quotes(name) + " is not supported");
    expression_ptr out = make(node::filter, at, std::move(name), one(std::move(subject)));
    if (is_symbol("(")) parse_arguments(*out);
    return out;
  }

  bool begins_argument() const noexcept {
    if (now().what == kind::string || now().what == kind::integer || now().what == kind::real) return true;
    if (is_symbol("[") || is_symbol("{")) return true;
    return now().what == kind::name && !is_any_name({"else", "or", "and", "if", "in", "not", "recursive"});
  }

  expression_ptr parse_test(expression_ptr subject) {
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

  std::vector<token> tokens_;
  std::size_t position_ = 0;
  std::size_t depth_ = 0;
  std::size_t loops_ = 0;       // around what is being read
  std::size_t conditions_ = 0;  // likewise: what may never be reached need not be supported, as in Jinja
  std::optional<error> failure_;
};

}  // namespace

result<block> parse(std::string_view source) {
  auto tokens = cut_into_tokens(source);
  if (!tokens) return fail(std::move(tokens.error()));
  return parser(*std::move(tokens)).parse_all();
}

}  // namespace ebb::model::jinja

// model/jinja/expression_parser.hpp: what stands between {{ and }}, and in tags: recursive descent in Jinja's own order of precedence.
#pragma once
#include "model/jinja/syntax.hpp"
#include "model/jinja/token_cursor.hpp"

namespace ebb::model::jinja {

class expression_parser : protected token_cursor {
 protected:
  using node = expression::kind;
  using token_cursor::token_cursor;

  static std::vector<expression_ptr> one(expression_ptr part);
  expression_ptr make(node what, place at, std::string name, std::vector<expression_ptr> parts);
  // a, b, c without brackets, or the one expression.
  expression_ptr parse_tuple(bool with_choice = true, bool in_brackets = false);
  expression_ptr parse_expression();
  // Filters and tests behind `out`. Of a filter block, whose subject is null, the first filter stands without "|".
  expression_ptr parse_filters(expression_ptr out, bool begins = false);

  std::size_t conditions_ = 0;  // around what is being read: what may never be reached need not be supported, as in Jinja

 private:
  static std::vector<expression_ptr> two(expression_ptr left, expression_ptr right);
  void measure(expression& of);
  expression_ptr make_constant(place at, value held);
  bool ends_tuple() const noexcept;
  template <class Operand>
  expression_ptr parse_chain(std::string_view word, node what, Operand operand);
  expression_ptr parse_either();
  expression_ptr parse_both();
  expression_ptr parse_not();
  std::optional<std::string> take_comparison();
  expression_ptr parse_comparison();
  template <class Operand>
  expression_ptr parse_binary(words symbols, Operand operand);
  expression_ptr parse_sum();
  expression_ptr parse_joined();
  expression_ptr parse_product();
  expression_ptr parse_power();
  expression_ptr parse_unary(bool with_filters);
  expression_ptr parse_primary();
  expression_ptr parse_named();
  expression_ptr parse_items(place at);
  expression_ptr parse_entries(place at);
  expression_ptr parse_postfix(expression_ptr out);
  expression_ptr parse_subscript(expression_ptr object, place at);
  void parse_arguments(expression& out);
  expression_ptr parse_call(expression_ptr called);
  expression_ptr parse_filter(expression_ptr subject);
  bool begins_argument() const noexcept;
  expression_ptr parse_test(expression_ptr subject);
};

}  // namespace ebb::model::jinja

// model/jinja/syntax.hpp: a template as a tree. Built once by the parser, immutable afterwards, so any thread may render it.
//
//   expression      name              parts
//   constant        -                 -               its value in `constant`
//   name            of the variable   -
//   list, tuple     -                 items
//   dict            -                 key, value, key, value, ...
//   attribute       of the attribute  object
//   item            -                 object, key
//   slice           -                 object, start, stop, step; null where left out
//   call            -                 called, positional arguments; named ones in `named`
//   filter, test    of it             subject, positional arguments; named ones in `named`. A filter block's subject is null
//   choice          -                 condition, then, otherwise (may be null)
//   both, either    -                 left, right     (and, or)
//   negation        "not" "-" "+"     operand
//   binary          "+" "-" "*" ...   left, right
//   joined          -                 operands of ~
//   comparison      -                 operands; operators between them in `operators`
#pragma once
#include "model/jinja/run.hpp"
#include "model/jinja/value.hpp"
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ebb::model::jinja {

struct expression;
struct statement;
using expression_ptr = std::unique_ptr<expression>;
using block = std::vector<statement>;

struct expression {
  enum class kind : std::uint8_t {
    constant,
    name,
    list,
    tuple,
    dict,
    attribute,
    item,
    slice,
    call,
    filter,
    test,
    choice,
    both,
    either,
    negation,
    binary,
    joined,
    comparison
  };
  kind what;
  place at;
  std::string name;
  value constant;
  std::vector<expression_ptr> parts;
  std::vector<std::pair<std::string, expression_ptr>> named;
  std::vector<std::string> operators;
  std::size_t depth = 1;  // of the tree below, at most limits::chat_syntax_depth_max
};

struct statement {
  enum class kind : std::uint8_t {
    text,        // words
    output,      // subject
    choice,      // branches; the last may have no condition
    loop,        // target in subject; `for target in source if condition`; body, otherwise
    assign,      // target = source
    capture,     // {% set target %} body {% endset %}, through `source` where that is a filter
    macro,       // name, parameters, body
    call_block,  // {% call(parameters) source %} body
    filtered,    // {% filter source %} body
    with,        // targets and sources in assignments; body
    scoped,      // {% generation %} body
    leave,       // break
    next,        // continue
  };
  kind what;
  place at;
  std::string name;
  text words;
  expression_ptr target;
  expression_ptr source;
  expression_ptr condition;
  block body;
  block otherwise;
  std::vector<std::pair<expression_ptr, block>> branches;
  std::vector<std::pair<std::string, expression_ptr>> parameters;      // with their defaults, or null
  std::vector<std::pair<expression_ptr, expression_ptr>> assignments;  // of with
};

}  // namespace ebb::model::jinja

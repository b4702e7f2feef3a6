#include "model/jinja/parser.hpp"
#include "model/jinja/expression_parser.hpp"

namespace ebb::model::jinja {
namespace {

using form = statement::kind;

// A template's text and tags.
class parser : expression_parser {
 public:
  explicit parser(std::vector<token> tokens) : expression_parser(std::move(tokens)) {}

  result<block> parse_all() {
    block all = parse_block({});
    if (failed()) return fail(*failure());
    return all;
  }

 private:
  block parse_block(words ends) {
    const level deeper(*this);
    block out;
    while (!failed() && now().what != kind::end) {
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
    while (!failed() && !is_symbol(")")) {
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
    if (!failed() && out.source->what != node::call) fail_here("{% call %} needs a call");
    parse_inner(out, "endcall");
  }

  void parse_filter_block(statement& out) {
    out.source = parse_filters(nullptr, true);
    parse_inner(out, "endfilter");
  }

  void parse_with(statement& out) {
    while (!failed() && now().what != kind::block_end) {
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
    while (!failed()) {
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

  std::size_t loops_ = 0;  // around what is being read
};

}  // namespace

result<block> parse(std::string_view source) {
  auto tokens = cut_into_tokens(source);
  if (!tokens) return fail(std::move(tokens.error()));
  return parser(*std::move(tokens)).parse_all();
}

}  // namespace ebb::model::jinja

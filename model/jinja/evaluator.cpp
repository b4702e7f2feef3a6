#include "model/jinja/evaluator.hpp"
#include "config/utf8.hpp"
#include "model/jinja/filters.hpp"
#include "model/jinja/globals.hpp"
#include "model/jinja/lookup.hpp"
#include "model/jinja/methods.hpp"
#include "model/jinja/operators.hpp"
#include "model/jinja/predicates.hpp"
#include <algorithm>
#include <deque>

namespace ebb::model::jinja {

// Names as one part of a template sees them; what is not here is looked for in the scope around it.
struct scope {
  variables names;
  scope* around = nullptr;
};

namespace {

enum class flow : std::uint8_t { on, leave, next };  // after a statement: go on, or break or continue the loop around it

class evaluator {
 public:
  evaluator(variables given, std::optional<std::chrono::sys_seconds> now) : now_(now) {
    here_ = &scopes_.emplace_back();
    here_->names = std::move(given);
  }

  result<text> render(const block& tree) {
    for (const auto& [name, given] : here_->names) {
      if (in_.checked(given); in_.failed()) return jinja_fail();
    }
    here_ = new_scope(here_);
    render_block(tree);
    if (in_.failed()) return jinja_fail();
    return std::move(output_);
  }

 private:
  tl::unexpected<error> jinja_fail() const { return fail(in_.failure()); }

  // --- scopes
  // They live as long as the run, since macros keep the one in which they were defined; so do loops and namespaces.
  scope* new_scope(scope* around) {
    in_.make(sizeof(scope));
    scopes_.push_back({{}, around});
    return &scopes_.back();
  }

  // Inside of it, `here_` is a scope of its own.
  class entered {
   public:
    entered(evaluator& of, scope* inner) : of_(of), before_(std::exchange(of.here_, inner)) {}
    ~entered() { of_.here_ = before_; }
    entered(const entered&) = delete;

   private:
    evaluator& of_;
    scope* before_;
  };

  void set(const std::string& name, value held) {
    for (auto& [known, before] : here_->names) {
      if (known == name) {
        before = std::move(held);
        return;
      }
    }
    if (in_.make(sizeof(variables::value_type) + name.size())) here_->names.emplace_back(name, std::move(held));
  }

  value find(const std::string& name) {
    for (const scope* at = here_; at; at = at->around) {
      if (!in_.step(at->names.size() / 4)) return value();
      for (const auto& [known, held] : at->names) {
        if (known == name) return held;
      }
    }
    const bool exists = name == "namespace" || (is_global(name) && (name != "strftime_now" || now_));
    return exists ? value(callable{name, nullptr, nullptr, nullptr, 1}) : value::missing(in_quotes(name) + " is not defined");
  }

  void assign(const expression& target, value held) {
    if (in_.failed()) return;
    in_.at(target.at);
    if (target.what == expression::kind::name) return set(target.name, std::move(held));
    if (target.what == expression::kind::attribute) return assign_member(target, std::move(held));
    const auto items = items_of(in_, held);
    if (!items) return;
    if (items->size() != target.parts.size()) {
      in_.fail("cannot unpack " + std::to_string(items->size()) + " values into " + std::to_string(target.parts.size()) + " names");
      return;
    }
    for (std::size_t index = 0; index < items->size(); ++index) assign(*target.parts[index], (*items)[index]);
  }

  void assign_member(const expression& target, value held) {
    const value object = find(target.parts[0]->name);
    auto* const* space = object.get<name_space*>();
    if (!space) {
      in_.fail("cannot set an attribute of " + std::string(object.type_name()) + ", which is no namespace");
      return;
    }
    set_member(**space, target.name, std::move(held));
  }

  void set_member(name_space& space, const std::string& name, value held) {
    if (!in_.step(space.members.size())) return;
    const auto found = std::ranges::find(space.members, name, &std::pair<std::string, value>::first);
    if (found != space.members.end()) {
      found->second = std::move(held);
    } else if (in_.make(sizeof(value) + name.size())) {
      space.members.emplace_back(name, std::move(held));
    }
  }

  // --- statements
  flow render_block(const block& statements) {
    for (const statement& each : statements) {
      in_.at(each.at);
      if (!in_.step()) return flow::leave;
      const flow after = render_statement(each);
      if (after != flow::on) return after;
    }
    return flow::on;
  }

  flow render_statement(const statement& each) {
    switch (each.what) {
      case statement::kind::text: put(each.words); break;
      case statement::kind::output: put_value(evaluate(each.source)); break;
      case statement::kind::choice: return render_choice(each);
      case statement::kind::loop: return render_loop(each);
      case statement::kind::assign: assign(*each.target, evaluate(each.source)); break;
      case statement::kind::capture: assign(*each.target, filtered(each)); break;
      case statement::kind::macro: define(each); break;
      case statement::kind::call_block: call_with_block(each); break;
      case statement::kind::filtered: put_value(filtered(each)); break;
      case statement::kind::with: return render_with(each);
      case statement::kind::scoped: {
        const entered inner(*this, new_scope(here_));
        return render_block(each.body);
      }
      case statement::kind::leave: return flow::leave;
      case statement::kind::next: return flow::next;
    }
    return flow::on;
  }

  void put(const text& words) {
    if (words.size() > limits::chat_output_bytes_max - output_.size()) {
      in_.fail(errc::too_large, "the text grows over " + std::to_string(limits::chat_output_bytes_max) + " bytes");
    } else if (in_.make(words.size())) {
      output_.append(words);
    }
  }

  void put_value(const value& of) {
    if (const text* words = of.as_text()) return put(*words);
    if (in_.walk(of) && !in_.failed()) put(to_text(of));
  }

  flow render_choice(const statement& each) {
    for (const auto& [condition, body] : each.branches) {
      if (!condition || evaluate(condition).truth()) return in_.failed() ? flow::leave : render_block(body);
    }
    return flow::on;
  }

  flow render_with(const statement& each) {
    scope* const inner = new_scope(here_);
    std::vector<value> sources;
    for (const auto& [target, source] : each.assignments) sources.push_back(evaluate(source));
    const entered in(*this, inner);
    for (std::size_t index = 0; index < sources.size(); ++index) assign(*each.assignments[index].first, std::move(sources[index]));
    return render_block(each.body);
  }

  // The items of a loop for which its condition holds.
  std::optional<std::vector<value>> loop_items(const statement& each, scope* inner) {
    auto items = items_of(in_, evaluate(each.source));
    if (!items || !each.condition) return items;
    const entered in(*this, inner);
    std::vector<value> kept;
    for (value& item : *items) {
      inner->names.clear();
      assign(*each.target, item);
      if (evaluate(each.condition).truth()) kept.push_back(std::move(item));
      if (in_.failed()) return std::nullopt;
    }
    return kept;
  }

  flow render_loop(const statement& each) {
    if (in_.failed()) return flow::leave;
    scope* const inner = new_scope(here_);
    const auto items = loop_items(each, inner);
    if (!items || in_.failed()) return flow::leave;
    const entered in(*this, inner);
    bool any_ended = false;
    in_.make(sizeof(loop_state) + items->size() * sizeof(value));
    const std::vector<value>& kept = loop_items_.emplace_back(*items);
    loop_state& loop = loops_.emplace_back(loop_state{&kept, 0, ++loop_depth_, std::nullopt});
    for (; loop.index < kept.size() && in_.step(); ++loop.index) {
      inner->names.clear();
      inner->names.emplace_back("loop", &loop);
      assign(*each.target, kept[loop.index]);
      const flow after = render_block(each.body);
      if (after == flow::leave) break;
      any_ended = any_ended || after == flow::on;
    }
    --loop_depth_;
    if (in_.failed()) return flow::leave;
    if (any_ended) return flow::on;
    inner->names.clear();  // as Jinja has it, "else" is also for a loop of which no turn came to its end
    return render_block(each.otherwise);
  }

  // What `body` writes, as a value.
  text captured(const block& body, scope* inner) {
    const text before = std::exchange(output_, text());
    const entered in(*this, inner);
    render_block(body);
    text out = std::exchange(output_, before);
    return out;
  }

  value filtered(const statement& each) {
    const value written = captured(each.body, new_scope(here_));
    if (!each.source) return written;
    return apply_chain(*each.source, written);
  }

  // The filters of a filter block, whose innermost subject is `written`.
  value apply_chain(const expression& chain, const value& written) {
    const value subject = chain.parts[0] ? apply_chain(*chain.parts[0], written) : written;
    return chain.what == expression::kind::filter && is_filter(chain.name) ? apply_filter(in_, chain.name, subject, arguments_of(chain))
                                                                           : in_.fail("only filters that are supported can stand here");
  }

  // --- macros
  void define(const statement& each) {
    if (in_.make(sizeof(callable))) set(each.name, callable{each.name, nullptr, &each, here_, 1});
  }

  void call_with_block(const statement& each) {
    const value caller = callable{"caller", nullptr, &each, here_, 1};
    const value called = evaluate(each.source->parts[0]);
    arguments given = arguments_of(*each.source);
    given.named.emplace_back("caller", caller);
    put_value(call(called, std::move(given)));
  }

  value call_macro(const callable& macro, const arguments& given) {
    if (calls_ >= limits::chat_calls_max)
      return in_.fail(errc::too_large, "macros call one another deeper than " + std::to_string(limits::chat_calls_max));
    const statement& body = *macro.macro;
    const entered in(*this, new_scope(macro.home));
    ++calls_;
    bind_parameters(body, macro.name, given);
    const std::size_t loop_depth = std::exchange(loop_depth_, 0);
    const value out = in_.failed() ? value() : value(captured(body.body, here_));
    loop_depth_ = loop_depth;
    --calls_;
    return out;
  }

  void bind_parameters(const statement& body, const std::string& name, const arguments& given) {
    if (given.positional.size() > body.parameters.size()) {
      in_.fail("macro " + in_quotes(name) + " takes not more than " + std::to_string(body.parameters.size()) + " arguments");
    }
    for (const auto& [key, held] : given.named) {
      const bool known =
          key == "caller" || std::ranges::any_of(body.parameters, [&](const auto& parameter) { return parameter.first == key; });
      if (!known) in_.fail("macro " + in_quotes(name) + " has no parameter " + in_quotes(key));
    }
    for (std::size_t index = 0; index < body.parameters.size() && !in_.failed(); ++index) {
      const auto& [parameter, fallback] = body.parameters[index];
      const value* held = given.find(index, parameter);
      set(parameter, held ? *held : fallback ? evaluate(fallback) : value::missing("parameter " + in_quotes(parameter) + " was not given"));
    }
    if (const value* caller = given.find(SIZE_MAX, "caller")) set("caller", *caller);
  }

  value make_namespace(const arguments& given) {
    if (!in_.make(sizeof(name_space))) return value();
    name_space& space = spaces_.emplace_back();
    for (const value& from : given.positional) {
      const dictionary* entries = from.as_dict();
      if (!entries) return in_.fail("namespace takes mappings and named arguments");
      for (const auto& [key, held] : entries->entries) set_member(space, to_text(key).bytes(), held);
    }
    for (const auto& [name, held] : given.named) set_member(space, name, held);
    return &space;
  }

  value call(const value& called, arguments given) {
    if (in_.failed()) return value();
    if (const undefined* nothing = called.get<undefined>()) return in_.fail("a call of an undefined value: " + nothing->name);
    const callable* function = called.as_callable();
    if (!function) return in_.fail(std::string(called.type_name()) + " cannot be called");
    if (function->macro) return call_macro(*function, given);
    if (function->receiver) return call_method(in_, *function->receiver, function->name, given);
    if (function->name == "namespace") return make_namespace(given);
    return call_global(in_, function->name, given, now_);
  }

  // --- expressions
  value evaluate(const expression_ptr& of) { return of ? evaluate(*of) : value(); }

  value evaluate(const expression& of) {
    in_.at(of.at);
    if (depth_ >= limits::chat_depth_max) return in_.fail(errc::too_large, "nested deeper than " + std::to_string(limits::chat_depth_max));
    if (!in_.step()) return value();
    ++depth_;
    value out = yield_of(of);
    --depth_;
    return in_.failed() ? value() : out;
  }

  value yield_of(const expression& of) {
    using kind = expression::kind;
    switch (of.what) {
      case kind::constant: return of.constant;
      case kind::name: return find(of.name);
      case kind::list: return in_.list(evaluate_all(of.parts));
      case kind::tuple: return in_.tuple(evaluate_all(of.parts));
      case kind::dict: return make_dict(of);
      case kind::attribute: return attribute_of(in_, evaluate(of.parts[0]), of.name);
      case kind::item: return make_item(of);
      case kind::slice: return make_slice(of);
      case kind::call: return make_call(of);
      case kind::filter: return make_filtered(of);
      case kind::test: return make_tested(of);
      case kind::choice: return evaluate(evaluate(of.parts[0]).truth() ? of.parts[1] : of.parts[2]);
      case kind::both: return first_unless(of, true);
      case kind::either: return first_unless(of, false);
      case kind::negation: return negated(of);
      case kind::binary: return make_binary(of);
      case kind::joined: return make_joined(of);
      case kind::comparison: return compared(of);
    }
    return value();
  }

  std::vector<value> evaluate_all(const std::vector<expression_ptr>& parts) {
    std::vector<value> out;
    for (const expression_ptr& part : parts) out.push_back(evaluate(part));
    return out;
  }

  arguments arguments_of(const expression& of) {
    arguments out;
    for (std::size_t index = 1; index < of.parts.size(); ++index) out.positional.push_back(evaluate(of.parts[index]));
    for (const auto& [name, part] : of.named) out.named.emplace_back(name, evaluate(part));
    in_.at(of.at);
    return out;
  }

  value make_dict(const expression& of) {
    std::vector<std::pair<value, value>> entries;
    for (std::size_t index = 0; index + 1 < of.parts.size(); index += 2) {
      value key = evaluate(of.parts[index]);
      if (key.depth() > 0 && key.as_callable() == nullptr && !in_.failed())
        return in_.fail(std::string(key.type_name()) + " cannot be a key");
      entries.emplace_back(std::move(key), evaluate(of.parts[index + 1]));
    }
    return in_.dict(std::move(entries));
  }

  value make_item(const expression& of) {
    const value object = evaluate(of.parts[0]), key = evaluate(of.parts[1]);
    return in_.failed() ? value() : item_of(in_, object, key);
  }

  value make_slice(const expression& of) {
    const std::vector<value> parts = evaluate_all(of.parts);
    return in_.failed() ? value() : slice_of(in_, parts[0], parts[1], parts[2], parts[3]);
  }

  value make_call(const expression& of) {
    const expression& called = *of.parts[0];
    if (called.what != expression::kind::attribute) {
      const value function = evaluate(called);
      return call(function, arguments_of(of));
    }
    const value object = evaluate(called.parts[0]);
    const bool is_method = has_method(object, called.name);
    const value member = is_method || in_.failed() ? value() : attribute_of(in_, object, called.name);
    const arguments given = arguments_of(of);
    if (in_.failed()) return value();
    return is_method ? call_method(in_, object, called.name, given) : call(member, given);
  }

  value make_filtered(const expression& of) {
    if (!is_filter(of.name)) return in_.fail("the filter " + in_quotes(of.name) + " is not supported");
    const value subject = evaluate(of.parts[0]);
    const arguments given = arguments_of(of);
    return in_.failed() ? value() : apply_filter(in_, of.name, subject, given);
  }

  value make_tested(const expression& of) {
    if (!is_predicate(of.name)) return in_.fail("the test " + in_quotes(of.name) + " is not supported");
    const value subject = evaluate(of.parts[0]);
    const arguments given = arguments_of(of);
    return in_.failed() ? value() : value(apply_predicate(in_, of.name, subject, given));
  }

  value first_unless(const expression& of, bool truth) {
    value left = evaluate(of.parts[0]);
    return left.truth() == truth ? evaluate(of.parts[1]) : left;
  }

  value negated(const expression& of) {
    const value operand = evaluate(of.parts[0]);
    if (in_.failed()) return value();
    return of.name == "not" ? value(!operand.truth()) : apply_sign(in_, of.name, operand);
  }

  value make_binary(const expression& of) {
    const value left = evaluate(of.parts[0]), right = evaluate(of.parts[1]);
    in_.at(of.at);
    return in_.failed() ? value() : apply_binary(in_, of.name, left, right);
  }

  value make_joined(const expression& of) {
    text out;
    for (const expression_ptr& part : of.parts) {
      const value operand = evaluate(part);
      if (!in_.walk(operand)) return value();
      const text words = to_text(operand);
      if (!in_.make(words.size())) return value();
      out.append(words);
    }
    return out;
  }

  value compared(const expression& of) {
    value left = evaluate(of.parts[0]);
    for (std::size_t index = 0; index < of.operators.size(); ++index) {
      value right = evaluate(of.parts[index + 1]);
      if (in_.failed()) return value();
      in_.at(of.at);
      if (!apply_comparison(in_, of.operators[index], left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  run in_;
  std::optional<std::chrono::sys_seconds> now_;
  text output_;
  std::deque<scope> scopes_;
  std::deque<name_space> spaces_;
  std::deque<loop_state> loops_;
  std::deque<std::vector<value>> loop_items_;
  scope* here_ = nullptr;
  std::size_t depth_ = 0;
  std::size_t calls_ = 0;
  std::size_t loop_depth_ = 0;
};

}  // namespace

result<text> render(const block& tree, variables given, std::optional<std::chrono::sys_seconds> now) {
  return evaluator(std::move(given), now).render(tree);
}

}  // namespace ebb::model::jinja

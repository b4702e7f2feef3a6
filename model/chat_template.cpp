#include "model/chat_template.hpp"
#include "config/assert.hpp"
#include "config/utf8.hpp"
#include "model/jinja/parser.hpp"
#include <algorithm>
#include <utility>

namespace ebb::model {
namespace {

using jinja::value;
using entries = std::vector<std::pair<value, value>>;

constexpr std::string_view plain_source =
    "{% for message in messages %}{{ message.role + ': ' + message.content + '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}";

value foreign(const std::string& words) { return jinja::text(words, true); }

// Does anything below look at a part's "type"? Only what knows of lists of parts does.
struct part_search {
  bool in(const jinja::expression_ptr& of) const { return of && in(*of); }
  bool in(const jinja::expression& of) const {
    const jinja::text* key = of.constant.as_text();
    if ((of.what == jinja::expression::kind::attribute && of.name == "type") || (key && key->view() == "type")) return true;
    const auto found = [&](const jinja::expression_ptr& part) { return in(part); };
    return std::ranges::any_of(of.parts, found) || std::ranges::any_of(of.named, [&](const auto& each) { return in(each.second); });
  }
  bool in(const jinja::statement& of) const {
    return in(of.target) || in(of.source) || in(of.condition) || in(of.body) || in(of.otherwise) ||
           std::ranges::any_of(of.branches, [&](const auto& branch) { return in(branch.first) || in(branch.second); }) ||
           std::ranges::any_of(of.parameters, [&](const auto& parameter) { return in(parameter.second); }) ||
           std::ranges::any_of(of.assignments, [&](const auto& assignment) { return in(assignment.second); });
  }
  bool in(const jinja::block& of) const {
    return std::ranges::any_of(of, [&](const jinja::statement& each) { return in(each); });
  }
};

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : "\n") + part;
  return out;
}

value content_of(const chat_message& message, bool as_parts) {
  if (message.parts.empty()) return foreign(message.content);
  if (!as_parts) return foreign(joined(message.parts));
  std::vector<value> parts;
  for (const std::string& part : message.parts) parts.push_back(value::dict({{"type", "text"}, {"text", foreign(part)}}));
  return value::list(std::move(parts));
}

value to_value(const chat_message& message, bool as_parts) {
  entries out = {{"role", foreign(message.role)}, {"content", content_of(message, as_parts)}};
  if (!message.name.empty()) out.emplace_back("name", foreign(message.name));
  return value::dict(std::move(out));
}

bool is_utf8(const chat_message& message) {
  return is_valid_utf8(message.role) && is_valid_utf8(message.content) && is_valid_utf8(message.name) &&
         std::ranges::all_of(message.parts, is_valid_utf8);
}

chat_text to_chat_text(const jinja::text& rendered) {
  chat_text out{rendered.bytes(), {}};
  for (std::size_t at = 0; at < rendered.size(); ++at) {
    if (!rendered.is_foreign(at)) continue;
    const bool goes_on = !out.foreign.empty() && out.foreign.back().end == at;
    if (goes_on) {
      out.foreign.back().end = at + 1;
    } else {
      out.foreign.push_back({at, at + 1});
    }
  }
  return out;
}

}  // namespace

chat_template::chat_template(jinja::block tree)
    : tree_(std::make_shared<const jinja::block>(std::move(tree))), reads_parts_(part_search().in(*tree_)) {}

result<chat_template> chat_template::parse(std::string_view source) {
  auto tree = jinja::parse(source);
  if (!tree) return fail(std::move(tree.error()));
  return chat_template(*std::move(tree));
}

chat_template chat_template::plain() {
  auto made = parse(plain_source);
  EBB_ASSERT(made.has_value());
  return *std::move(made);
}

result<chat_text> chat_template::render(std::span<const chat_message> messages, const chat_options& options) const {
  std::vector<value> all;
  for (const chat_message& message : messages) {
    if (!is_utf8(message)) return fail(errc::bad_value, "message " + std::to_string(all.size()) + " is no UTF-8");
    all.push_back(to_value(message, reads_parts_));
  }
  jinja::variables given = options.variables;
  given.emplace_back("messages", value::list(std::move(all)));
  given.emplace_back("add_generation_prompt", options.add_generation_prompt);
  given.emplace_back("bos_token", options.bos_token);
  given.emplace_back("eos_token", options.eos_token);
  given.emplace_back("tools", options.tools.value_or(value::nothing()));
  given.emplace_back("documents", value::nothing());
  auto rendered = jinja::render(*tree_, std::move(given), options.now);
  if (!rendered) return fail(std::move(rendered.error()));
  return to_chat_text(*rendered);
}

chosen_template read_chat_template(const gguf& file) {
  const auto source = file.require<std::string_view>("tokenizer.chat_template");
  if (!source) return {chat_template::plain(), source.error()};
  auto own = chat_template::parse(*source);
  if (!own) return {chat_template::plain(), own.error()};
  return {*std::move(own), std::nullopt};
}

}  // namespace ebb::model

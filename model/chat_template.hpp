// model/chat_template.hpp: a conversation as the text that a model was trained to go on from.
//
// Models bring their form as a Jinja template (tokenizer.chat_template of a GGUF file). docs/CHAT_TEMPLATE.md says how much of the
// language is understood. A template comes from a stranger's file: whatever it does, parsing and rendering end, within the
// limits of config/limits.hpp.
//
// What is rendered knows which of its bytes came from outside the template, so that a special token that somebody wrote into a message
// stays plain text: tokenizer::encode_prompt takes those ranges.
#pragma once
#include "config/result.hpp"
#include "model/gguf.hpp"
#include "model/jinja/evaluator.hpp"
#include "model/jinja/syntax.hpp"
#include "model/jinja/value.hpp"
#include "model/tokenizer.hpp"
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::model {

// Calls of tools are no part of it: a message that has any is the caller's to refuse.
struct chat_message {
  std::string role;
  std::string content;
  std::vector<std::string> parts;  // of a content that comes as a list of texts; then `content` is not looked at
  std::string name;                // empty: none
};

struct chat_options {
  bool add_generation_prompt = true;
  std::string bos_token;  // as the vocabulary writes them; empty where it has none
  std::string eos_token;
  std::optional<jinja::value> tools;            // a list, as the API's `tools`
  jinja::variables variables;                   // further ones, such as enable_thinking
  std::optional<std::chrono::sys_seconds> now;  // for templates that tell the date; none: they find no clock
};

struct chat_text {
  std::string text;
  std::vector<byte_range> foreign;  // in order and apart: what no template wrote
};

class chat_template {
 public:
  // Errors: bad_value (with line and column, and what is not supported), too_large.
  static result<chat_template> parse(std::string_view source);

  // "role: content" and an empty line for each message, then "assistant:" if a generation prompt is asked for.
  static chat_template plain();

  // Errors: bad_value (the template refuses the conversation, with its own words, or does what is an error; also a message that is
  // no UTF-8), too_large.
  result<chat_text> render(std::span<const chat_message> messages, const chat_options& options) const;

 private:
  explicit chat_template(jinja::block tree);

  std::shared_ptr<const jinja::block> tree_;
  bool reads_parts_;  // does it look for texts in a content that is a list?
};

struct chosen_template {
  chat_template chat;
  std::optional<error> obstacle;  // why it is not the model's own, for a log; none where that is used
};

// The file's own template, or the plain one where there is none (missing_key) or where it is not understood.
chosen_template read_chat_template(const gguf& file);

}  // namespace ebb::model

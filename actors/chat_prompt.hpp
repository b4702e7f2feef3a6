// actors/chat_prompt.hpp: from a client's conversation to the tokens of a prompt, by the model's chat template.
#pragma once
#include "bus/messages.hpp"
#include "config/result.hpp"
#include "model/chat_template.hpp"
#include "model/tokenizer.hpp"
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ebb::actors {

// For templates that tell the date.
using calendar = std::function<std::chrono::sys_seconds()>;

inline std::chrono::sys_seconds system_calendar() { return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()); }

// Immutable, so any thread may use it.
class chat_prompt {
 public:
  chat_prompt(model::chat_template form, std::shared_ptr<const model::tokenizer> vocabulary, calendar today = system_calendar);

  // The text that the model goes on from, the assistant's turn begun. Errors: bad_value (a message without a role, or what the template
  // refuses, in its own words), too_large; they name the field.
  result<model::chat_text> render(std::span<const bus::chat_message> messages) const;

  // What a message says is plain text, whatever it looks like; only the template writes special tokens.
  std::vector<token_id> encode(const model::chat_text& rendered) const { return vocabulary_->encode_prompt(rendered.text, rendered.foreign); }

 private:
  std::string text_of(std::optional<token_id> token) const;

  model::chat_template form_;
  std::shared_ptr<const model::tokenizer> vocabulary_;
  calendar today_;
};

}  // namespace ebb::actors

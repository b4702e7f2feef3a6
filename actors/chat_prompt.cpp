#include "actors/chat_prompt.hpp"
#include <utility>

namespace ebb::actors {

chat_prompt::chat_prompt(model::chat_template form, std::shared_ptr<const model::tokenizer> vocabulary, calendar today)
    : form_(std::move(form)), vocabulary_(std::move(vocabulary)), today_(std::move(today)) {}

std::string chat_prompt::text_of(std::optional<token_id> token) const {
  return token ? std::string(vocabulary_->text_of(*token)) : std::string();
}

result<model::chat_text> chat_prompt::render(std::span<const bus::chat_message> messages) const {
  std::vector<model::chat_message> conversation;
  conversation.reserve(messages.size());
  for (const bus::chat_message& each : messages) {
    if (each.role.empty()) {
      return fail(errc::bad_value, "field `messages`: message " + std::to_string(conversation.size()) + " has no role; give one, such as user");
    }
    conversation.push_back({.role = each.role, .content = each.content, .parts = {}, .name = each.name});
  }
  model::chat_options options;
  options.bos_token = text_of(vocabulary_->bos());
  options.eos_token = text_of(vocabulary_->eos());
  options.now = today_();
  auto rendered = form_.render(conversation, options);
  if (!rendered) return fail(rendered.error().code, "field `messages`: " + rendered.error().text);
  return rendered;
}

}  // namespace ebb::actors

// actors/order_maker.hpp: from a client's `generate` to what the cards need: tokens, and a setting for everything left open.
#pragma once
#include "actors/chat_prompt.hpp"
#include "actors/messages.hpp"
#include "config/settings.hpp"
#include <memory>

namespace ebb::actors {

class order_maker {
 public:
  // `context`: positions a session may use. `defaults`: for what a client does not say. `conversations`: of the same vocabulary.
  order_maker(std::shared_ptr<const model::tokenizer> vocabulary, chat_prompt conversations, const sampling_settings& defaults, std::uint32_t context);

  // The answer's length is cut to what the context leaves behind the prompt.
  // Errors: bad_value (no prompt or more than one, an id outside the vocabulary, a conversation that chat_prompt refuses, a sampling field out of
  // range, a stop string that model::stop_matcher refuses, no tokens wanted, more log probabilities than are shown or no tokens to carry them), too_large (the prompt
  // fills the context, or a conversation what its template may take). So no card refuses what was made here.
  // Any bytes are a prompt: what is no UTF-8 is encoded byte by byte.
  result<std::shared_ptr<const session_order>> make(const bus::generate& asked) const;

  const std::shared_ptr<const model::tokenizer>& vocabulary() const noexcept { return vocabulary_; }

 private:
  result<std::vector<token_id>> prompt_of(const bus::generate& asked) const;
  result<std::vector<token_id>> prompt_of(const std::vector<bus::chat_message>& messages) const;
  result<std::vector<token_id>> prompt_of(const std::vector<token_id>& ids) const;
  result<void> check_size(std::string_view text, std::string_view what) const;

  std::shared_ptr<const model::tokenizer> vocabulary_;
  chat_prompt conversations_;
  sampling_settings defaults_;
  std::uint32_t context_;
  std::size_t token_bytes_max_ = 0;  // of the longest token
};

}  // namespace ebb::actors

#include "actors/order_maker.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <string>

namespace ebb::actors {

order_maker::order_maker(std::shared_ptr<const model::tokenizer> vocabulary, chat_prompt conversations, const sampling_settings& defaults,
                         std::uint32_t context)
    : vocabulary_(std::move(vocabulary)), conversations_(std::move(conversations)), defaults_(defaults), context_(context) {
  for (std::size_t id = 0; id < vocabulary_->n_vocab(); ++id) {
    token_bytes_max_ = std::max(token_bytes_max_, vocabulary_->bytes_of(static_cast<token_id>(id), true).size());
  }
}

// Before it is encoded, which takes a while.
result<void> order_maker::check_size(std::string_view text, std::string_view what) const {
  if (text.size() <= token_bytes_max_ * context_) return {};
  const std::size_t at_least = (text.size() + token_bytes_max_ - 1) / token_bytes_max_;
  return fail(errc::too_large, std::string(what) + " has at least " + std::to_string(at_least) + " tokens, and the context holds " + std::to_string(context_) +
                                   " with at least one left for the answer; shorten it, or raise `context`");
}

result<std::vector<token_id>> order_maker::prompt_of(const bus::generate& asked) const {
  const int n_given = !asked.prompt.empty() + !asked.ids.empty() + !asked.messages.empty();
  if (n_given > 1) return fail(errc::bad_value, "of the fields `prompt`, `ids` and `messages` more than one is given; give one of them");
  if (!asked.messages.empty()) return prompt_of(asked.messages);
  if (!asked.ids.empty()) return prompt_of(asked.ids);
  if (auto fits = check_size(asked.prompt, "the prompt"); !fits) return fail(fits.error());
  auto ids = vocabulary_->encode_prompt(asked.prompt);
  if (ids.empty()) return fail(errc::bad_value, "field `prompt` is empty: there is nothing to go on from; give at least one character");
  return ids;
}

result<std::vector<token_id>> order_maker::prompt_of(const std::vector<bus::chat_message>& messages) const {
  const auto rendered = conversations_.render(messages);
  if (!rendered) return fail(rendered.error());
  if (auto fits = check_size(rendered->text, "the conversation, as the model's template writes it,"); !fits) return fail(fits.error());
  auto ids = conversations_.encode(*rendered);
  if (ids.empty()) return fail(errc::bad_value, "field `messages`: the model's template writes nothing for this conversation; give it as `prompt`");
  return ids;
}

result<std::vector<token_id>> order_maker::prompt_of(const std::vector<token_id>& ids) const {
  for (const token_id token : ids) {
    if (vocabulary_->contains(token)) continue;
    return fail(errc::bad_value, "field `ids`: " + std::to_string(token) + " is outside the vocabulary of " +
                                     std::to_string(vocabulary_->n_vocab()) + " tokens");
  }
  return ids;
}

result<std::shared_ptr<const session_order>> order_maker::make(const bus::generate& asked) const {
  auto prompt = prompt_of(asked);
  if (!prompt) return fail(prompt.error());
  if (prompt->size() >= context_) {
    return fail(errc::too_large, "the prompt has " + std::to_string(prompt->size()) + " tokens, and the context holds " +
                                     std::to_string(context_) + " with at least one left for the answer; shorten it, or raise `context`");
  }
  model::completion_params params;
  params.sampling = {.temperature = asked.temperature.value_or(defaults_.temperature),
                     .top_k = asked.top_k.value_or(defaults_.top_k),
                     .top_p = asked.top_p.value_or(defaults_.top_p),
                     .min_p = asked.min_p.value_or(defaults_.min_p),
                     .repeat_penalty = asked.repeat_penalty.value_or(defaults_.repeat_penalty),
                     .repeat_last_n = asked.repeat_last_n.value_or(defaults_.repeat_last_n),
                     .seed = asked.seed.value_or(defaults_.seed)};
  if (auto sane = model::check(params.sampling); !sane) return fail(sane.error());
  if (auto sane = model::stop_matcher::make(asked.stop); !sane) return fail(sane.error());
  const std::uint32_t max_tokens = asked.max_tokens.value_or(defaults_.max_tokens);
  if (max_tokens == 0) return fail(errc::bad_value, "field `max_tokens` is 0; an answer has at least one token");
  const auto room = static_cast<std::uint32_t>(context_ - prompt->size());
  params.max_tokens = std::min(max_tokens, room);
  params.stops = asked.stop;
  params.hash_logits = asked.hash;
  params.ignore_eos = asked.ignore_eos;
  if (asked.logprobs && *asked.logprobs > limits::logprobs_max) {
    return fail(errc::bad_value, "field `logprobs` is " + std::to_string(*asked.logprobs) + "; at most " + std::to_string(limits::logprobs_max) + " are shown");
  }
  if (asked.logprobs && !asked.stream) return fail(errc::bad_value, "field `logprobs`: they come with the tokens, and `stream` is false; leave one of them out");
  params.logprobs = asked.logprobs;
  return std::make_shared<const session_order>(session_order{std::move(*prompt), std::move(params)});
}

}  // namespace ebb::actors

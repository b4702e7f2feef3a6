#include "model/completion.hpp"
#include "config/assert.hpp"
#include <algorithm>
#include <utility>

namespace ebb::model {
namespace {

result<void> check_prompt(std::span<const token_id> prompt, const tokenizer& vocabulary) {
  const auto outside = std::find_if(prompt.begin(), prompt.end(), [&](token_id id) { return !vocabulary.contains(id); });
  if (outside == prompt.end()) return {};
  return fail(errc::bad_value, "token " + std::to_string(outside - prompt.begin()) + " of the prompt is " +
                                   std::to_string(*outside) + ", outside the vocabulary of " +
                                   std::to_string(vocabulary.n_vocab()) + " tokens.");
}

}  // namespace

std::string_view to_string(finish reason) noexcept {
  switch (reason) {
    case finish::none: return "none";
    case finish::stop: return "stop";
    case finish::length: return "length";
    case finish::cancelled: return "cancelled";
  }
  return "unknown";
}

result<completion> completion::make(std::shared_ptr<const tokenizer> vocabulary, std::vector<token_id> prompt,
                                    const completion_params& params) {
  EBB_ASSERT(vocabulary != nullptr);
  if (params.max_tokens == 0) return fail(errc::bad_value, "max_tokens is 0; an answer has at least one token.");
  if (auto ok = check(params.sampling); !ok) return fail(std::move(ok.error()));
  if (auto ok = check_prompt(prompt, *vocabulary); !ok) return fail(std::move(ok.error()));
  auto stops = stop_matcher::make(params.stops);
  if (!stops) return fail(std::move(stops.error()));
  return completion(std::move(vocabulary), std::move(prompt), params, std::move(*stops));
}

completion::completion(std::shared_ptr<const tokenizer> vocabulary, std::vector<token_id> prompt, const completion_params& params,
                       stop_matcher stops)
    : vocabulary_(std::move(vocabulary)),
      history_(std::move(prompt)),
      n_prompt_(history_.size()),
      max_tokens_(params.max_tokens),
      ignore_eos_(params.ignore_eos),
      logprobs_(params.logprobs),
      sampler_(params.sampling),
      stops_(std::move(stops)) {
  if (params.hash_logits) hash_.emplace();
}

step completion::accept(std::span<const float> logits) {
  EBB_ASSERT(reason_ == finish::none);
  EBB_ASSERT(logits.size() >= vocabulary_->n_vocab());
  if (hash_) hash_->add(logits);
  // Rows are padded in some models; what lies beyond the vocabulary is no token.
  const auto row = logits.first(vocabulary_->n_vocab());
  const token_id token = sampler_.pick(row, history_);
  history_.push_back(token);

  const bool ends = vocabulary_->ends_text(token) && !ignore_eos_;
  std::string text = ends ? std::string() : text_of(token);
  reason_ = reason_after(ends);
  if (reason_ != finish::none) text += held_text();
  step taken{token, std::move(text), reason_, {}};
  if (logprobs_) taken.logprobs = logprobs_of(row, token, *logprobs_);
  return taken;
}

finish completion::reason_after(bool token_ends_text) const noexcept {
  if (token_ends_text || stops_.matched()) return finish::stop;
  return n_generated() == max_tokens_ ? finish::length : finish::none;
}

std::string completion::text_of(token_id token) {
  if (vocabulary_->ends_text(token)) return {};
  return stops_.push(utf8_.push(vocabulary_->bytes_of(token)));
}

std::string completion::held_text() {
  std::string text = stops_.push(utf8_.finish());
  return text + stops_.finish();
}

std::string completion::cancel() {
  if (reason_ != finish::none) return {};
  reason_ = finish::cancelled;
  return held_text();
}

std::string completion::logits_hash_hex() const { return hash_ ? hash_->hex() : std::string(); }

}  // namespace ebb::model

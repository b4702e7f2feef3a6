// model/completion.hpp: one answer in the making: takes a row of logits, gives a token and the text to show.
//
// A plain class that knows no device and no clock; the card that owns the last stage keeps one a session.
#pragma once
#include "config/ids.hpp"
#include "config/result.hpp"
#include "model/logits_hash.hpp"
#include "model/logprobs.hpp"
#include "model/sampler.hpp"
#include "model/stop_matcher.hpp"
#include "model/tokenizer.hpp"
#include "model/utf8.hpp"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::model {

struct completion_params {
  sampling_params sampling;
  std::uint32_t max_tokens = 256;  // >= 1; the caller keeps it within what is left of the context
  std::vector<std::string> stops;  // the answer ends before the first of them
  bool hash_logits = false;
  std::optional<std::uint32_t> logprobs;  // each step says how likely its token was, and so many of the likeliest
  bool ignore_eos = false;         // tokens that end text do not end this one, and still show nothing

  friend bool operator==(const completion_params&, const completion_params&) = default;
};

// Why an answer ended.
enum class finish : std::uint8_t {
  none,       // it goes on
  stop,       // a token that ends text, or a stop string
  length,     // max_tokens
  cancelled,  // from outside
};
std::string_view to_string(finish reason) noexcept;

struct step {
  token_id token;
  std::string text;  // valid UTF-8 to show now; often empty, and never the beginning of a stop string that may yet be completed
  finish reason;
  std::optional<row_logprobs> logprobs;  // if asked for
};

class completion {
 public:
  // `vocabulary` is shared by all sessions; `prompt` counts as history for the repetition penalty.
  // Errors: bad_value (a field of params, an id of the prompt outside the vocabulary).
  static result<completion> make(std::shared_ptr<const tokenizer> vocabulary, std::vector<token_id> prompt,
                                 const completion_params& params);

  // Picks the next token. The last step carries all text that was held back.
  // Pre: the answer has not ended; `logits` has one value a token of the vocabulary, or more.
  step accept(std::span<const float> logits);

  // Ends the answer from outside and gives the text that was held back; nothing if it has ended before.
  std::string cancel();

  finish reason() const noexcept { return reason_; }
  std::span<const token_id> history() const noexcept { return history_; }  // prompt, then answer
  std::span<const token_id> generated() const noexcept { return history().subspan(n_prompt_); }
  std::size_t n_prompt() const noexcept { return n_prompt_; }
  std::size_t n_generated() const noexcept { return history_.size() - n_prompt_; }

  // Of the rows accepted so far (model/logits_hash.hpp); empty unless hash_logits.
  std::string logits_hash_hex() const;

 private:
  completion(std::shared_ptr<const tokenizer> vocabulary, std::vector<token_id> prompt, const completion_params& params,
             stop_matcher stops);

  std::string text_of(token_id token);
  std::string held_text();
  finish reason_after(bool token_ends_text) const noexcept;

  std::shared_ptr<const tokenizer> vocabulary_;
  std::vector<token_id> history_;
  std::size_t n_prompt_;
  std::size_t max_tokens_;
  bool ignore_eos_;
  std::optional<std::uint32_t> logprobs_;
  sampler sampler_;
  utf8_stream utf8_;
  stop_matcher stops_;
  std::optional<logits_hash> hash_;
  finish reason_ = finish::none;
};

}  // namespace ebb::model

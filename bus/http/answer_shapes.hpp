// bus/http/answer_shapes.hpp: answers in the shapes of OpenAI's API, whole and as chunks.
#pragma once
#include "bus/messages.hpp"
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::bus::http {

// A token with its log probability, to be shown.
struct seen_token {
  std::string text;  // the token's own bytes, where the answer's text may come later
  float logprob = 0;
  std::vector<token_logprob> top;
};

struct finished_choice {
  std::string text;
  std::vector<seen_token> tokens;  // if they were asked for
  done summary;
};

struct token_usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
};

class answer_shapes {
 public:
  // `unix_s`: when the answer began. `logprobs`: choices have them.
  answer_shapes(bool chat, bool logprobs, std::string model, const std::string& version, std::uint64_t unix_s);

  using json = nlohmann::ordered_json;
  json whole(const std::vector<finished_choice>& choices, const token_usage& usage) const;

  // While streaming; `usage_follows`: each says null until it comes.
  json opening_chunk(std::size_t index, bool usage_follows) const;  // of a chat: who speaks
  json text_chunk(std::size_t index, std::string_view text, const std::vector<seen_token>& tokens, std::size_t text_offset, bool usage_follows) const;
  json finish_chunk(std::size_t index, const done& summary, bool usage_follows) const;
  json usage_chunk(const token_usage& usage) const;

 private:
  json envelope(bool chunk) const;
  json chunk_of(json choice, bool usage_follows) const;
  json logprobs_of(const std::vector<seen_token>& tokens, std::size_t text_offset) const;

  bool chat_;
  bool logprobs_;
  std::string id_;
  std::string model_;
  std::string fingerprint_;
  std::uint64_t created_;
};

}  // namespace ebb::bus::http

#include "bus/http/answer_shapes.hpp"
#include "config/utf8.hpp"
#include <random>

namespace ebb::bus::http {
namespace {

using json = nlohmann::ordered_json;

// Tells answers apart for people and programs that keep them; nothing depends on it.
std::string fresh_id(std::string_view prefix) {
  constexpr std::string_view letters = "0123456789abcdef";
  constexpr int length = 24;
  std::random_device random;
  std::string id(prefix);
  for (int i = 0; i < length; ++i) id += letters[random() % letters.size()];
  return id;
}

json usage_of(const token_usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens}, {"completion_tokens", usage.completion_tokens}, {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

// What the bus says of an answer and OpenAI's API has no place for.
json measured(const done& summary) {
  json out{{"prompt_ms", summary.prompt_ms},
           {"decode_ms", summary.decode_ms},
           {"tokens_per_s", summary.tokens_per_s},
           {"hit_rate", summary.hit_rate},
           {"gap_ms_max", summary.gap_ms_max}};
  if (!summary.hash.empty()) out["hash"] = summary.hash;
  return out;
}

json bytes_of(std::string_view text) {
  json out = json::array();
  for (const char each : text) out.push_back(static_cast<unsigned char>(each));
  return out;
}

json chat_entry(std::string_view text, float logprob) { return {{"token", repaired_utf8(text)}, {"logprob", logprob}, {"bytes", bytes_of(text)}}; }

json chat_logprobs(const std::vector<seen_token>& tokens) {
  json content = json::array();
  for (const seen_token& each : tokens) {
    json entry = chat_entry(each.text, each.logprob);
    entry["top_logprobs"] = json::array();
    for (const token_logprob& likely : each.top) entry["top_logprobs"].push_back(chat_entry(likely.text, likely.logprob));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

json plain_logprobs(const std::vector<seen_token>& tokens, std::size_t text_offset) {
  json out{{"tokens", json::array()}, {"token_logprobs", json::array()}, {"top_logprobs", json::array()}, {"text_offset", json::array()}};
  for (const seen_token& each : tokens) {
    const std::string text = repaired_utf8(each.text);
    out["tokens"].push_back(text);
    out["token_logprobs"].push_back(each.logprob);
    json top = json::object();
    for (const token_logprob& likely : each.top) top[repaired_utf8(likely.text)] = likely.logprob;
    out["top_logprobs"].push_back(std::move(top));
    out["text_offset"].push_back(text_offset);
    text_offset += text.size();
  }
  return out;
}

}  // namespace

answer_shapes::answer_shapes(bool chat, bool logprobs, std::string model, const std::string& version, std::uint64_t unix_s)
    : chat_(chat), logprobs_(logprobs), id_(fresh_id(chat ? "chatcmpl-" : "cmpl-")), model_(std::move(model)), fingerprint_("ebb-" + version), created_(unix_s) {}

json answer_shapes::envelope(bool chunk) const {
  const char* object = !chat_ ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}, {"system_fingerprint", fingerprint_}, {"choices", json::array()}};
}

json answer_shapes::logprobs_of(const std::vector<seen_token>& tokens, std::size_t text_offset) const {
  if (!logprobs_) return nullptr;
  return chat_ ? chat_logprobs(tokens) : plain_logprobs(tokens, text_offset);
}

json answer_shapes::whole(const std::vector<finished_choice>& choices, const token_usage& usage) const {
  json out = envelope(false);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    json choice{{"index", i}};
    if (chat_) choice["message"] = {{"role", "assistant"}, {"content", choices[i].text}, {"refusal", nullptr}};
    else choice["text"] = choices[i].text;
    choice["logprobs"] = logprobs_of(choices[i].tokens, 0);
    choice["finish_reason"] = choices[i].summary.finish;
    choice["ebb"] = measured(choices[i].summary);
    out["choices"].push_back(std::move(choice));
  }
  out["usage"] = usage_of(usage);
  return out;
}

json answer_shapes::chunk_of(json choice, bool usage_follows) const {
  json out = envelope(true);
  out["choices"].push_back(std::move(choice));
  if (usage_follows) out["usage"] = nullptr;
  return out;
}

json answer_shapes::opening_chunk(std::size_t index, bool usage_follows) const {
  return chunk_of({{"index", index}, {"delta", {{"role", "assistant"}, {"content", ""}}}, {"logprobs", nullptr}, {"finish_reason", nullptr}}, usage_follows);
}

json answer_shapes::text_chunk(std::size_t index, std::string_view text, const std::vector<seen_token>& tokens, std::size_t text_offset, bool usage_follows) const {
  json choice{{"index", index}};
  if (chat_) choice["delta"] = {{"content", text}};
  else choice["text"] = text;
  choice["logprobs"] = tokens.empty() ? json(nullptr) : logprobs_of(tokens, text_offset);
  choice["finish_reason"] = nullptr;
  return chunk_of(std::move(choice), usage_follows);
}

json answer_shapes::finish_chunk(std::size_t index, const done& summary, bool usage_follows) const {
  json choice{{"index", index}};
  if (chat_) choice["delta"] = json::object();
  else choice["text"] = "";
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = summary.finish;
  choice["ebb"] = measured(summary);
  return chunk_of(std::move(choice), usage_follows);
}

json answer_shapes::usage_chunk(const token_usage& usage) const {
  json out = envelope(true);
  out["usage"] = usage_of(usage);
  return out;
}

}  // namespace ebb::bus::http

// bus/http/chat_request.cpp: the body of /v1/chat/completions.
#include "bus/http/answer_request.hpp"
#include "config/limits.hpp"

namespace ebb::bus::http {
namespace {

using nlohmann::json;

// Text, or a list of parts that are text.
void take_content(json_fields& fields, std::string& into) {
  const json* found = fields.find("content");
  if (found == nullptr) return;  // an assistant's turn may have none
  if (found->is_string()) {
    into = found->get<std::string>();
    return;
  }
  if (!found->is_array()) return fields.refuse_value("content", "a text, or a list of parts of the type \"text\"", *found);
  for (std::size_t i = 0; i < found->size(); ++i) {
    const std::string name = "content[" + std::to_string(i) + "]";
    const json& part = (*found)[i];
    if (!part.is_object()) return fields.refuse_value(name, "an object such as {\"type\": \"text\", \"text\": \"...\"}", part);
    json_fields inner(part);
    std::string type;
    std::string text;
    inner.take("type", type);
    if (!inner.wrong() && type != "text") return fields.refuse(name + ".type", "is " + shown(type) + "; only \"text\" is served", "unsupported");
    inner.take("text", text);
    inner.require("text", part.contains("text"), "a text");
    inner.refuse_unknown_keys();
    if (inner.wrong()) return fields.refuse(name, "is wrong: " + inner.wrong()->message);
    into += text;
  }
}

// What an answer of this API brings besides, sent back as it came: empty there, so it changes nothing.
void accept_empty(json_fields& fields) {
  for (const char* key : {"refusal", "annotations", "audio", "function_call", "tool_calls", "reasoning_content"}) {
    const json* found = fields.find(key);
    if (found != nullptr && !(found->is_structured() && found->empty()) && *found != "") fields.refuse(key, "is not served; leave it out", "unsupported");
  }
}

outcome<chat_message> parse_message(const json& from, const std::string& path) {
  if (!from.is_object()) return refuse(400, "bad_value", "field `" + path + "` must be an object with `role` and `content`, not " + shown(from), path);
  json_fields fields(from, path + ".");
  chat_message out;
  fields.take("role", out.role, {1, limits::chat_role_bytes_max});
  fields.require("role", !out.role.empty(), "a text, such as \"user\"");
  if (out.role == "developer") out.role = "system";  // its newer name, which templates do not know
  take_content(fields, out.content);
  fields.take("name", out.name, {1, limits::chat_role_bytes_max});
  accept_empty(fields);
  if (out.role != "assistant") fields.require("content", from.contains("content") && !from["content"].is_null(), "a text");
  fields.refuse_unknown_keys();
  if (fields.wrong()) return tl::unexpected(*fields.wrong());
  return out;
}

void take_messages(json_fields& fields, std::vector<chat_message>& into, std::optional<problem>& wrong) {
  const json* found = fields.find("messages");
  fields.require("messages", found != nullptr, "a list of messages");
  if (found == nullptr) return;
  if (!found->is_array() || found->empty()) return fields.refuse_value("messages", "a list of at least one message", *found);
  if (found->size() > limits::chat_messages_max) {
    return fields.refuse("messages", "has " + std::to_string(found->size()) + " elements; at most " + std::to_string(limits::chat_messages_max) + " are taken");
  }
  for (std::size_t i = 0; i < found->size(); ++i) {
    auto message = parse_message((*found)[i], "messages[" + std::to_string(i) + "]");
    if (!message) {
      wrong = message.error();
      return;
    }
    into.push_back(*std::move(message));
  }
}

void take_logprobs(json_fields& fields, answer_request& into) {
  fields.take("logprobs", into.logprobs);
  std::optional<std::uint32_t> top;
  fields.take("top_logprobs", top, {0, limits::logprobs_max});
  if (top && !into.logprobs) fields.refuse("top_logprobs", "is only for `logprobs`: true");
  into.top_logprobs = top.value_or(0);
}

void take_completion_tokens(json_fields& fields, generate& wanted) {
  std::optional<std::uint32_t> newer;
  fields.take("max_completion_tokens", newer, {1});
  if (newer && wanted.max_tokens && *newer != *wanted.max_tokens) fields.refuse("max_completion_tokens", "and `max_tokens` mean the same and differ; send one of them");
  if (newer) wanted.max_tokens = newer;
}

}  // namespace

outcome<answer_request> parse_chat(std::string_view body, std::uint64_t seed) {
  const auto object = parse_object(body);
  if (!object) return tl::unexpected(object.error());
  json_fields fields(*object);
  answer_request out;
  out.chat = true;
  shared_fields shared;
  std::optional<problem> wrong;
  take_shared(fields, shared);
  take_completion_tokens(fields, shared.wanted);
  take_messages(fields, shared.wanted.messages, wrong);
  take_logprobs(fields, out);
  fields.refuse_unknown_keys();
  if (fields.wrong()) return tl::unexpected(*fields.wrong());
  if (wrong) return tl::unexpected(*wrong);
  if (auto refused = refusal_of_length({shared.wanted}, "messages")) return tl::unexpected(*std::move(refused));
  out.stream = shared.stream;
  out.include_usage = shared.include_usage;
  if (out.logprobs) shared.wanted.logprobs = out.top_logprobs;
  shared.wanted.stream = out.stream || out.logprobs;
  out.per_prompt = shared.n.value_or(1);
  out.choices = choices_of({shared.wanted}, out.per_prompt, seed);
  out.echoes.resize(out.choices.size());
  return out;
}

}  // namespace ebb::bus::http

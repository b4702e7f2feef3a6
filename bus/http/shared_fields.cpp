// bus/http/shared_fields.cpp: the fields that chat and plain completions have in common.
#include "bus/http/answer_request.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <array>
#include <string_view>

namespace ebb::bus::http {
namespace {

using nlohmann::json;

void take_stops(json_fields& fields, std::vector<std::string>& into) {
  const json* found = fields.find("stop");
  if (found == nullptr) return;
  const std::string wanted = "a text of 1 to " + std::to_string(limits::stop_bytes_max) + " bytes, or a list of at most " +
                             std::to_string(limits::stop_strings_max) + " such texts";
  const auto is_stop = [](const json& each) {
    return each.is_string() && !each.get_ref<const std::string&>().empty() && each.get_ref<const std::string&>().size() <= limits::stop_bytes_max;
  };
  if (is_stop(*found)) {
    into.push_back(found->get<std::string>());
    return;
  }
  if (!found->is_array() || found->size() > limits::stop_strings_max) return fields.refuse_value("stop", wanted, *found);
  for (const json& each : *found) {
    if (!is_stop(each)) return fields.refuse_value("stop", wanted, each);
    into.push_back(each.get<std::string>());
  }
}

void take_stream_options(json_fields& fields, shared_fields& into) {
  const json* found = fields.find("stream_options");
  if (found == nullptr) return;
  if (!found->is_object()) return fields.refuse_value("stream_options", "an object", *found);
  json_fields inner(*found, "stream_options.");
  inner.take("include_usage", into.include_usage);
  bool obfuscation = false;
  inner.take("include_obfuscation", obfuscation);  // padding against those who watch the network: there is none to give
  inner.refuse_unknown_keys();
  if (inner.wrong()) return fields.refuse("stream_options", "is wrong: " + inner.wrong()->message);
  if (!into.stream) fields.refuse("stream_options", "is only for `stream`: true");
}

// Of these only the value that changes nothing is served.
void refuse_what_is_not_served(json_fields& fields) {
  for (const std::string_view key : {"frequency_penalty", "presence_penalty"}) {
    const json* found = fields.find(key);
    if (found != nullptr && !(found->is_number() && found->get<double>() == 0)) {
      fields.refuse(key, "is not served, except as 0; `repeat_penalty` holds back what came lately", "unsupported");
    }
  }
  for (const std::string_view key : {"logit_bias", "tools", "functions", "web_search_options"}) {
    const json* found = fields.find(key);
    if (found != nullptr && !(found->is_structured() && found->empty())) fields.refuse(key, "is not served; leave it out", "unsupported");
  }
  for (const std::string_view key : {"tool_choice", "function_call"}) {
    const json* found = fields.find(key);
    if (found != nullptr && *found != "none" && *found != "auto") fields.refuse(key, "is not served, except as \"none\" or \"auto\"; there are no tools", "unsupported");
  }
  for (const std::string_view key : {"audio", "prediction", "reasoning_effort", "verbosity", "suffix"}) {
    const json* found = fields.find(key);
    if (found != nullptr && *found != "") fields.refuse(key, "is not served; leave it out", "unsupported");
  }
  if (const json* found = fields.find("modalities"); found != nullptr && *found != json::array({"text"})) {
    fields.refuse("modalities", "is not served, except as [\"text\"]", "unsupported");
  }
  if (const json* found = fields.find("response_format"); found != nullptr && *found != json{{"type", "text"}}) {
    fields.refuse("response_format", "is not served, except as {\"type\": \"text\"}", "unsupported");
  }
}

// At most what the prompt has in a frame of the bus.
std::size_t bytes_of_prompt(const generate& of) {
  constexpr std::size_t around_a_message = 48;  // the names of its fields, and how long each is
  constexpr std::size_t of_an_id = 5;
  std::size_t bytes = of.prompt.size() + of_an_id * of.ids.size();
  for (const chat_message& each : of.messages) bytes += around_a_message + each.role.size() + each.content.size() + each.name.size();
  return bytes;
}

// Whatever they say, the answer is the same.
void accept_what_changes_nothing(json_fields& fields) {
  for (const std::string_view key : {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls"}) {
    static_cast<void>(fields.find(key));
  }
}

}  // namespace

void take_shared(json_fields& fields, shared_fields& into) {
  generate& wanted = into.wanted;
  std::string model;
  fields.take("model", model, {0, limits::quoted_bytes_max * 8});  // there is one, which answers whatever the name
  fields.take("stream", into.stream);
  take_stream_options(fields, into);
  fields.take("n", into.n, {1, limits::http_choices_max});
  fields.take("max_tokens", wanted.max_tokens, {1});
  fields.take("temperature", wanted.temperature, {0});
  fields.take("top_p", wanted.top_p, {0, 1});
  fields.take("top_k", wanted.top_k);
  fields.take("min_p", wanted.min_p, {0, 1});
  fields.take("repeat_penalty", wanted.repeat_penalty, {.least = 0, .least_excluded = true});
  fields.take("repeat_last_n", wanted.repeat_last_n);
  fields.take("seed", wanted.seed);
  fields.take("ignore_eos", wanted.ignore_eos);
  fields.take("hash", wanted.hash);
  take_stops(fields, wanted.stop);
  refuse_what_is_not_served(fields);
  accept_what_changes_nothing(fields);
}

std::optional<problem> refusal_of_length(const std::vector<generate>& prompts, std::string_view field) {
  const auto longest = std::max_element(prompts.begin(), prompts.end(), [](const auto& a, const auto& b) { return bytes_of_prompt(a) < bytes_of_prompt(b); });
  if (longest == prompts.end() || bytes_of_prompt(*longest) <= limits::http_prompt_bytes_max) return std::nullopt;
  return problem{400, "context_length_exceeded", "field `" + std::string(field) + "` has " + std::to_string(bytes_of_prompt(*longest)) + " bytes, with what is around its texts; at most " +
                                                     std::to_string(limits::http_prompt_bytes_max) + " are taken; shorten it", std::string(field)};
}

std::vector<generate> choices_of(const std::vector<generate>& prompts, std::uint32_t n, std::uint64_t seed) {
  std::vector<generate> all;
  for (const generate& prompt : prompts) {
    for (std::uint32_t i = 0; i < n; ++i) {
      all.push_back(prompt);
      if (i > 0) all.back().seed = prompt.seed.value_or(seed) + i;
    }
  }
  return all;
}

}  // namespace ebb::bus::http

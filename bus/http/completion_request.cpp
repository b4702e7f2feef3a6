// bus/http/completion_request.cpp: the body of /v1/completions.
#include "bus/http/answer_request.hpp"
#include "config/limits.hpp"
#include <limits>

namespace ebb::bus::http {
namespace {

using nlohmann::json;

constexpr std::string_view wanted_prompt = "a text, a list of token numbers, or a list of texts, none of them empty";

bool is_text(const json& value) { return value.is_string() && !value.get_ref<const std::string&>().empty(); }

// A prompt as text, as tokens, or several as texts.
void take_prompts(json_fields& fields, const generate& shared, std::vector<generate>& into) {
  const json* found = fields.find("prompt");
  fields.require("prompt", found != nullptr, wanted_prompt);
  if (found == nullptr) return;
  if (is_text(*found)) {
    into.push_back(shared);
    into.back().prompt = found->get<std::string>();
    return;
  }
  if (!found->is_array() || found->empty()) return fields.refuse_value("prompt", wanted_prompt, *found);
  if (found->front().is_number()) {
    into.push_back(shared);
    return fields.take("prompt", into.back().ids, {1, limits::prompt_ids_max}, {0, std::numeric_limits<token_id>::max()});
  }
  if (found->size() > limits::http_choices_max) {
    return fields.refuse("prompt", "has " + std::to_string(found->size()) + " texts; at most " + std::to_string(limits::http_choices_max) + " are taken");
  }
  for (const json& each : *found) {
    if (!is_text(each)) return fields.refuse_value("prompt[" + std::to_string(into.size()) + "]", "a text that is not empty", each);
    into.push_back(shared);
    into.back().prompt = each.get<std::string>();
  }
}

}  // namespace

outcome<answer_request> parse_completion(std::string_view body, std::uint64_t seed) {
  const auto object = parse_object(body);
  if (!object) return tl::unexpected(object.error());
  json_fields fields(*object);
  answer_request out;
  shared_fields shared;
  take_shared(fields, shared);
  std::optional<std::uint32_t> logprobs;
  fields.take("logprobs", logprobs, {0, limits::logprobs_max});
  bool echo = false;
  fields.take("echo", echo);
  std::optional<std::uint32_t> best_of;
  fields.take("best_of", best_of, {1});
  const std::uint32_t n = shared.n.value_or(1);
  if (best_of && *best_of != n) fields.refuse("best_of", "is not served, except as `n` is", "unsupported");
  out.stream = shared.stream;
  out.include_usage = shared.include_usage;
  out.logprobs = logprobs.has_value();
  out.top_logprobs = logprobs.value_or(0);
  shared.wanted.logprobs = logprobs;
  shared.wanted.stream = out.stream || out.logprobs;
  std::vector<generate> prompts;
  take_prompts(fields, shared.wanted, prompts);
  if (prompts.size() * n > limits::http_choices_max) {
    fields.refuse("n", "times the number of prompts is more than the " + std::to_string(limits::http_choices_max) + " answers that one request may have");
  }
  if (echo && out.logprobs) fields.refuse("echo", "is not served together with `logprobs`: those of the prompt are not computed", "unsupported");
  if (echo && !prompts.empty() && !prompts.front().ids.empty()) fields.refuse("echo", "is served for prompts of text alone", "unsupported");
  fields.refuse_unknown_keys();
  if (fields.wrong()) return tl::unexpected(*fields.wrong());
  if (auto refused = refusal_of_length(prompts, "prompt")) return tl::unexpected(*std::move(refused));
  out.per_prompt = n;
  out.choices = choices_of(prompts, n, seed);
  for (const generate& each : out.choices) out.echoes.push_back(echo ? each.prompt : std::string());
  return out;
}

}  // namespace ebb::bus::http

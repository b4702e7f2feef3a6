// bus/http/answer_request.hpp: the bodies of /v1/chat/completions and /v1/completions, in OpenAI's names, as commands of the bus.
//
// What would change the answer and is not served is refused by name; what would not (`user`, `metadata`, a penalty of 0) is accepted.
// docs/HTTP.md lists both.
#pragma once
#include "bus/http/json_body.hpp"
#include "bus/http/problem.hpp"
#include "bus/messages.hpp"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::bus::http {

struct answer_request {
  bool chat = false;
  std::vector<generate> choices;   // by index; each streams if anything has to be known token by token
  std::uint32_t per_prompt = 1;    // so many of them, one after the other, are answers to one prompt
  std::vector<std::string> echoes; // [choices], what each answer begins with; empty: nothing
  bool stream = false;
  bool include_usage = false;      // a last chunk with the usage, while streaming
  bool logprobs = false;
  std::uint32_t top_logprobs = 0;  // so many of the likeliest
};

// `seed` is what one gets who names none; further choices of one prompt have the next ones. Errors: 400, by the name of the field.
outcome<answer_request> parse_chat(std::string_view body, std::uint64_t seed);
outcome<answer_request> parse_completion(std::string_view body, std::uint64_t seed);

// --- parts of both

struct shared_fields {
  generate wanted;                     // without prompt or messages
  std::optional<std::uint32_t> n;
  bool stream = false;
  bool include_usage = false;
};
void take_shared(json_fields& fields, shared_fields& into);

// Whether one of them is too long for a frame of the bus, as a refusal of `field`.
std::optional<problem> refusal_of_length(const std::vector<generate>& prompts, std::string_view field);

// Each prompt n times, with seeds that go up.
std::vector<generate> choices_of(const std::vector<generate>& prompts, std::uint32_t n, std::uint64_t seed);

}  // namespace ebb::bus::http

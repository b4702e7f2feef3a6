// bus/http/answer_request.hpp: the bodies of /v1/chat/completions and /v1/completions, in OpenAI's names, as commands of the bus.
//
// What would change the answer and is not served is refused by name; what would not (`user`, `metadata`, a penalty of 0) is accepted.
// docs/HTTP.md lists both.
#pragma once
#include "bus/http/json_body.hpp"
#include "bus/http/problem.hpp"
#include "bus/messages.hpp"
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::bus::http {

struct answer_request {
  bool chat = false;
  std::vector<generate> choices;   // by index; each streams if anything has to be known token by token
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

// Each prompt n times, with seeds that go up.
std::vector<generate> choices_of(const std::vector<generate>& prompts, std::uint32_t n, std::uint64_t seed);

}  // namespace ebb::bus::http

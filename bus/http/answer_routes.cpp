// bus/http/answer_routes.cpp: /v1/chat/completions and /v1/completions.
#include "bus/http/all_routes.hpp"
#include "bus/http/answer.hpp"

namespace ebb::bus::http {
namespace {

response begin(context& of, const request& asked, outcome<answer_request> wanted) {
  if (!wanted) return response_of(wanted.error());
  auto place = of.answers.take(wanted->choices.size());
  if (!place) return response_of({429, "busy", std::to_string(limits::http_answers_max) + " answers are under way already; try again in a moment", {}});
  const bool stream = wanted->stream;
  const auto running = std::make_shared<answer>(of, *std::move(wanted), asked.peer, std::move(place));
  return stream ? answer::streamed(running) : running->whole();
}

}  // namespace

void add_answer_routes(routes& into, context& of) {
  into.add("POST", "/v1/chat/completions", [&of](const request& asked) { return begin(of, asked, parse_chat(asked.body, of.running.sampling.seed)); });
  into.add("POST", "/v1/completions", [&of](const request& asked) { return begin(of, asked, parse_completion(asked.body, of.running.sampling.seed)); });
}

}  // namespace ebb::bus::http

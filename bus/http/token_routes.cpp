// bus/http/token_routes.cpp: /tokenize and /detokenize.
#include "bus/http/all_routes.hpp"
#include "bus/http/json_body.hpp"
#include "bus/http/json_response.hpp"

namespace ebb::bus::http {
namespace {

using json = nlohmann::ordered_json;

outcome<tokenize> parse_tokenize(std::string_view body) {
  const auto object = parse_object(body);
  if (!object) return tl::unexpected(object.error());
  json_fields fields(*object);
  tokenize wanted;
  const bool has_content = fields.find("content") != nullptr;
  const bool has_text = fields.find("text") != nullptr;
  fields.take(has_text ? "text" : "content", wanted.text, {0, limits::tokenize_bytes_max});
  fields.take("special", wanted.special);
  if (has_content && has_text) fields.refuse("text", "and `content` mean the same; send one of them");
  fields.require("content", has_content || has_text, "a text");
  fields.refuse_unknown_keys();
  if (fields.wrong()) return tl::unexpected(*fields.wrong());
  return wanted;
}

outcome<detokenize> parse_detokenize(std::string_view body) {
  const auto object = parse_object(body);
  if (!object) return tl::unexpected(object.error());
  json_fields fields(*object);
  detokenize wanted;
  fields.take("tokens", wanted.ids, {0, limits::prompt_ids_max}, {0, std::numeric_limits<token_id>::max()});
  fields.require("tokens", object->contains("tokens"), "a list of whole numbers");
  fields.refuse_unknown_keys();
  if (fields.wrong()) return tl::unexpected(*fields.wrong());
  return wanted;
}

response to_tokens(context& of, const request& asked) {
  auto wanted = parse_tokenize(asked.body);
  if (!wanted) return response_of(wanted.error());
  call daemon(of.port, asked.peer);
  const auto made = daemon.ask<tokenized>(*std::move(wanted), limits::http_answer_timeout);
  if (!made) return response_of(problem_of(made.error(), asked_for::memory));
  return json_response({{"tokens", made->ids}, {"pieces", made->pieces}});
}

response to_text(context& of, const request& asked) {
  auto wanted = parse_detokenize(asked.body);
  if (!wanted) return response_of(wanted.error());
  call daemon(of.port, asked.peer);
  const auto made = daemon.ask<detokenized>(*std::move(wanted), limits::http_answer_timeout);
  if (!made) return response_of(with_field(problem_of(made.error(), asked_for::memory), "ids", "tokens"));
  return json_response({{"content", made->text}});
}

}  // namespace

void add_token_routes(routes& into, context& of) {
  into.add("POST", "/tokenize", [&of](const request& asked) { return to_tokens(of, asked); });
  into.add("POST", "/detokenize", [&of](const request& asked) { return to_text(of, asked); });
}

}  // namespace ebb::bus::http

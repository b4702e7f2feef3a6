// bus/http/model_routes.cpp: /v1/models, with the one model that is served.
#include "bus/http/all_routes.hpp"
#include "bus/http/json_response.hpp"
#include "config/utf8.hpp"

namespace ebb::bus::http {
namespace {

using json = nlohmann::ordered_json;

// The name is known before the model is; what is in the file comes with it.
json shown(context& of, const request& asked) {
  json out{{"id", of.model}, {"object", "model"}, {"created", 0}, {"owned_by", "ebb"}};
  call daemon(of.port, asked.peer);
  const auto now = daemon.ask<status_report>(status{}, limits::http_answer_timeout);
  if (!now || now->context == 0) return out;
  out["meta"] = {{"architecture", now->architecture}, {"layers", now->layers}, {"experts", now->experts}, {"context", now->context}};
  return out;
}

}  // namespace

void add_model_routes(routes& into, context& of) {
  into.add("GET", "/v1/models", [&of](const request& asked) { return json_response({{"object", "list"}, {"data", json::array({shown(of, asked)})}}); });
  into.add("GET", "/v1/models/{}", [&of](const request& asked) {
    if (asked.parts.at(0) == of.model) return json_response(shown(of, asked));
    return response_of({404, "model_not_found", "there is no model " + in_quotes(asked.parts[0]) + " here; the one that is served is " + in_quotes(of.model), "model"});
  });
}

}  // namespace ebb::bus::http

// bus/http/state_routes.cpp: how the daemon is: /health for those who only want to know whether, the others with the fields of the bus.
#include "bus/http/all_routes.hpp"
#include "bus/http/json_response.hpp"

namespace ebb::bus::http {
namespace {

response health(context& of, const request& asked) {
  call daemon(of.port, asked.peer);
  const auto now = daemon.ask<status_report>(status{}, limits::http_answer_timeout);
  const std::string state = now ? now->state : "failed";
  response made = json_response({{"status", state == "ready" ? "ok" : state}}, state == "ready" ? 200 : 503);
  if (state != "ready") made.headers.emplace_back("Retry-After", std::to_string(limits::http_retry_after.count()));
  return made;
}

}  // namespace

void add_state_routes(routes& into, context& of) {
  into.add("GET", "/health", [&of](const request& asked) { return health(of, asked); }, access::open);
  into.add("GET", "/v1/status", [&of](const request& asked) { return ask_and_show<status_report>(of, asked, status{}); });
  into.add("GET", "/v1/cards", [&of](const request& asked) { return ask_and_show<cards_report>(of, asked, cards{}); });
  into.add("GET", "/v1/experts", [&of](const request& asked) { return ask_and_show<experts_report>(of, asked, experts{}); });
}

}  // namespace ebb::bus::http

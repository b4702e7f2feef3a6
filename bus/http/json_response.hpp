// bus/http/json_response.hpp: replies of the bus as bodies, with the names that they have there.
#pragma once
#include "bus/http/context.hpp"
#include "bus/http/problem.hpp"
#include "bus/http/call.hpp"
#include "bus/to_json.hpp"

namespace ebb::bus::http {

inline response json_response(const nlohmann::ordered_json& body, int status = 200) {
  return {.status = status, .type = "application/json", .body = to_line(body), .headers = {}, .stream = {}};
}

// Asks what has one reply, and gives that as it is on the bus, without its type.
template <class Body>
response ask_and_show(context& of, const request& asked, command what) {
  call daemon(of.port, asked.peer);
  auto answer = daemon.ask<Body>(std::move(what), limits::http_answer_timeout);
  if (!answer) return response_of(problem_of(answer.error(), asked_for::memory));
  auto body = to_json(reply{{}, *std::move(answer)});
  body.erase("type");
  return json_response(body);
}

}  // namespace ebb::bus::http

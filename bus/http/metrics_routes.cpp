// bus/http/metrics_routes.cpp: /metrics, for Prometheus.
#include "bus/http/all_routes.hpp"
#include "bus/http/call.hpp"
#include "bus/http/metrics.hpp"
#include "bus/http/problem.hpp"

namespace ebb::bus::http {
namespace {

response metrics(context& of, const request& asked) {
  call daemon(of.port, asked.peer);
  const auto now = daemon.ask<status_report>(status{}, limits::http_answer_timeout);
  if (!now) return response_of(problem_of(now.error(), asked_for::memory));
  // Without a model these are refused, and what there is is shown all the same.
  std::optional<cards_report> all;
  std::optional<lease_report> leases;
  if (now->state == "ready") {
    if (auto answer = daemon.ask<cards_report>(cards{}, limits::http_answer_timeout)) all = *std::move(answer);
    lease list;
    list.action = "list";
    if (auto answer = daemon.ask<lease_report>(list, limits::http_answer_timeout)) leases = *std::move(answer);
  }
  return {.status = 200, .type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_of(*now, all, leases), .headers = {}, .stream = {}};
}

}  // namespace

void add_metrics_routes(routes& into, context& of) {
  into.add("GET", "/metrics", [&of](const request& asked) { return metrics(of, asked); });
}

}  // namespace ebb::bus::http

// bus/http/vram_routes.cpp: /v1/vram and /v1/vram/plan.
#include "bus/http/all_routes.hpp"
#include "bus/http/json_response.hpp"
#include "bus/http/vram_request.hpp"
#include <algorithm>

namespace ebb::bus::http {
namespace {

using json = nlohmann::ordered_json;

// Totals are sums, and the prompt chunk is the smallest, since the slowest stage sets the pace.
json summary_of(const std::vector<card_report>& cards) {
  card_report all;
  bool any_short = false;
  json gpus = json::array();
  for (const card_report& each : cards) {
    all.reserve_mib += each.reserve_mib;
    all.expert_slots += each.expert_slots;
    all.expert_slots_full += each.expert_slots_full;
    all.expert_cache_mib += each.expert_cache_mib;
    all.expert_cache_full_mib += each.expert_cache_full_mib;
    all.vram_free_mib += each.vram_free_mib;
    all.short_mib += each.short_mib;
    all.prompt_chunk = gpus.empty() ? each.prompt_chunk : std::min(all.prompt_chunk, each.prompt_chunk);
    any_short |= each.short_mib > 0;
    json one{{"gpu", each.device}};
    one.update(to_json(each));
    gpus.push_back(std::move(one));
  }
  json out{{"status", any_short ? "short" : "ok"}};
  out.update(to_json(all));
  out.erase("device");
  out.erase("took_ms");
  out["gpus"] = std::move(gpus);
  return out;
}

// Nothing is there to be measured yet; what is asked for is kept, and holds from the load on.
response not_loaded(std::optional<std::uint32_t> reserve_mib) {
  json out = summary_of({});
  out["status"] = "not_loaded";
  out["reserve_mib"] = reserve_mib.value_or(0);
  return json_response(out);
}

response set_vram(context& of, const request& asked) {
  const auto wanted = parse_vram(asked.body);
  if (!wanted) return response_of(wanted.error());
  call daemon(of.port, asked.peer);
  const request_id command{std::uint64_t{1}};
  daemon.submit(command, *wanted);
  if (!of.loaded) daemon.submit({std::uint64_t{2}}, status{});  // which is answered at once during the load, while the other is kept
  for (;;) {
    auto answer = daemon.next(limits::http_answer_timeout);
    if (!answer) return response_of(problem_of(answer.error(), asked_for::memory));
    if (answer->id != command) {
      const auto* now = std::get_if<status_report>(&answer->body);
      if (now != nullptr && now->state == "loading") return not_loaded(wanted->reserve_mib);
      of.loaded = now != nullptr && now->state == "ready";
      continue;
    }
    if (const auto* why = std::get_if<error>(&answer->body)) return response_of(problem_of(*why, asked_for::memory));
    return json_response(summary_of(std::get<vram_report>(answer->body).cards));
  }
}

response show_vram(context& of, const request& asked) {
  call daemon(of.port, asked.peer);
  const auto now = daemon.ask<cards_report>(cards{}, limits::http_answer_timeout);
  if (!now) {
    if (now.error().code == errc::not_loaded) {
      const auto state = daemon.ask<status_report>(status{}, limits::http_answer_timeout);
      if (state && state->state == "loading") return not_loaded(std::nullopt);
    }
    return response_of(problem_of(now.error(), asked_for::memory));
  }
  std::vector<card_report> reports;
  for (const card_info& each : now->cards) reports.push_back(each.report);
  return json_response(summary_of(reports));
}

response foresee(context& of, const request& asked) {
  const auto wanted = parse_vram(asked.body);
  if (!wanted) return response_of(wanted.error());
  return ask_and_show<plan_report>(of, asked, plan{wanted->reserve_mib, wanted->device});
}

}  // namespace

void add_vram_routes(routes& into, context& of) {
  into.add("GET", "/v1/vram", [&of](const request& asked) { return show_vram(of, asked); });
  into.add("POST", "/v1/vram", [&of](const request& asked) { return set_vram(of, asked); });
  into.add("POST", "/v1/vram/plan", [&of](const request& asked) { return foresee(of, asked); });
}

}  // namespace ebb::bus::http

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
  std::uint64_t reserve_mib = 0;  // of each card any number of 32 bits may be asked for
  bool any_short = false;
  json gpus = json::array();
  for (const card_report& each : cards) {
    reserve_mib += each.reserve_mib;
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
  out["reserve_mib"] = reserve_mib;
  out.erase("device");
  out.erase("took_ms");
  out["gpus"] = std::move(gpus);
  return out;
}

json or_null(const std::optional<std::uint32_t>& known) { return known ? json(*known) : json(nullptr); }

// Nothing is there to be measured yet; what is asked for is kept, and holds from the load on.
response not_loaded(const kept_reserves& kept, const std::optional<std::uint32_t>& device) {
  json out = summary_of({});
  for (auto& [name, figure] : out.items()) {
    if (figure.is_number()) figure = nullptr;
  }
  out["status"] = "not_loaded";
  out["reserve_mib"] = or_null(kept.common_mib(device));
  for (std::uint32_t each = 0; each < kept.n_cards().value_or(0); ++each) {
    if (!device || *device == each) out["gpus"].push_back({{"gpu", each}, {"device", each}, {"reserve_mib", or_null(kept.reserve_mib(each))}});
  }
  return json_response(out);
}

// The daemon says so too, but after the load.
outcome<vram> parse_known(const kept_reserves& kept, std::string_view body) {
  auto wanted = parse_vram(body);
  if (!wanted || !wanted->device || kept.may_have(*wanted->device)) return wanted;
  return refuse(400, "unknown_device", "no card " + std::to_string(*wanted->device) + " in this run; there are " + std::to_string(*kept.n_cards()) + ", 0 being the first", "gpu");
}

response set_vram(context& of, const request& asked) {
  const auto wanted = parse_known(of.kept, asked.body);
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
      if (now != nullptr && now->state == "loading") {
        of.kept.keep(*wanted);
        return not_loaded(of.kept, wanted->device);
      }
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
      if (state && state->state == "loading") return not_loaded(of.kept, std::nullopt);
    }
    return response_of(problem_of(now.error(), asked_for::memory));
  }
  std::vector<card_report> reports;
  for (const card_info& each : now->cards) reports.push_back(each.report);
  return json_response(summary_of(reports));
}

// On the bus 0 says that no time has been measured yet.
void show_measured(json& into, const char* name) {
  if (into.at(name) == 0) into[name] = nullptr;
}

json shown(const plan_report& foreseen) {
  json out = to_json(reply{{}, foreseen});
  out.erase("type");
  for (const char* name : {"tokens_per_s", "tokens_per_s_now"}) show_measured(out, name);
  for (json& card : out["cards"]) {
    for (const char* name : {"ms_per_token", "ms_per_token_now"}) show_measured(card, name);
  }
  return out;
}

response foresee(context& of, const request& asked) {
  const auto wanted = parse_vram(asked.body);
  if (!wanted) return response_of(wanted.error());
  call daemon(of.port, asked.peer);
  const auto foreseen = daemon.ask<plan_report>(plan{wanted->reserve_mib, wanted->device}, limits::http_answer_timeout);
  if (!foreseen) return response_of(problem_of(foreseen.error(), asked_for::memory));
  return json_response(shown(*foreseen));
}

}  // namespace

void add_vram_routes(routes& into, context& of) {
  into.add("GET", "/v1/vram", [&of](const request& asked) { return show_vram(of, asked); });
  into.add("POST", "/v1/vram", [&of](const request& asked) { return set_vram(of, asked); });
  into.add("POST", "/v1/vram/plan", [&of](const request& asked) { return foresee(of, asked); });
}

}  // namespace ebb::bus::http

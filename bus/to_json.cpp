#include "bus/to_json.hpp"

namespace ebb::bus {
namespace {

using json = nlohmann::ordered_json;

json body_of(const token& token) {
  json out{{"type", "token"}, {"index", token.index}, {"token", token.id}, {"text", token.text}};
  if (!token.logprob) return out;
  out["logprob"] = *token.logprob;
  out["top"] = json::array();
  for (const token_logprob& each : token.top) out["top"].push_back({{"token", each.id}, {"text", each.text}, {"logprob", each.logprob}});
  return out;
}

json body_of(const done& summary) {
  json out{{"type", "done"},
           {"finish", summary.finish},
           {"prompt_tokens", summary.prompt_tokens},
           {"generated_tokens", summary.generated_tokens},
           {"prompt_ms", summary.prompt_ms},
           {"decode_ms", summary.decode_ms},
           {"tokens_per_s", summary.tokens_per_s},
           {"hit_rate", summary.hit_rate},
           {"gap_ms_max", summary.gap_ms_max}};
  if (!summary.text.empty()) out["text"] = summary.text;
  if (!summary.hash.empty()) out["hash"] = summary.hash;
  return out;
}

template <class Item>
json list_of(const std::vector<Item>& items) {
  json out = json::array();
  for (const Item& item : items) out.push_back(to_json(item));
  return out;
}

json body_of(const vram_report& report) { return {{"type", "vram"}, {"cards", list_of(report.cards)}}; }
json body_of(const cards_report& report) { return {{"type", "cards"}, {"cards", list_of(report.cards)}}; }
json body_of(const cancelled&) { return {{"type", "cancelled"}}; }
json body_of(const error& why) { return {{"type", "error"}, {"code", to_string(why.code)}, {"text", why.text}}; }

json body_of(const lease_report& report) {
  json out{{"type", "lease"}, {"leases", list_of(report.leases)}};
  if (!report.cards.empty()) out["cards"] = list_of(report.cards);
  if (!report.warning.empty()) out["warning"] = report.warning;
  return out;
}

json body_of(const plan_report& report) {
  return {{"type", "plan"},
          {"cards", list_of(report.cards)},
          {"hit_rate", report.hit_rate},
          {"hit_rate_now", report.hit_rate_now},
          {"tokens_per_s", report.tokens_per_s},
          {"tokens_per_s_now", report.tokens_per_s_now}};
}

json body_of(const subscribed& answer) { return {{"type", "subscribed"}, {"endpoints", answer.endpoints}, {"sequence", answer.sequence}}; }

json body_of(const tokenized& answer) { return {{"type", "tokenized"}, {"ids", answer.ids}, {"pieces", answer.pieces}}; }
json body_of(const detokenized& answer) { return {{"type", "detokenized"}, {"text", answer.text}}; }
json body_of(const experts_report& report) { return {{"type", "experts"}, {"cards", list_of(report.cards)}}; }

json body_of(const status_report& report) {
  json out{{"type", "status"}};
  out.update(to_json(report));
  return out;
}

}  // namespace

json to_json(const reply& reply) {
  return std::visit([](const auto& body) { return body_of(body); }, reply.body);
}

json to_json(const card_report& report) {
  return {{"device", report.device},
          {"reserve_mib", report.reserve_mib},
          {"expert_slots", report.expert_slots},
          {"expert_slots_full", report.expert_slots_full},
          {"expert_cache_mib", report.expert_cache_mib},
          {"expert_cache_full_mib", report.expert_cache_full_mib},
          {"vram_free_mib", report.vram_free_mib},
          {"prompt_chunk", report.prompt_chunk},
          {"short_mib", report.short_mib},
          {"took_ms", report.took_ms}};
}

json to_json(const card_info& info) {
  json out = to_json(info.report);
  out.update({{"kind", info.kind},
              {"layer_begin", info.layer_begin},
              {"layer_end", info.layer_end},
              {"resident", info.resident},
              {"fast_path", info.fast_path},
              {"hits", info.hits},
              {"misses", info.misses},
              {"misses_cpu", info.misses_cpu},
              {"misses_copied", info.misses_copied},
              {"flips", info.flips},
              {"slots_to_fill", info.slots_to_fill},
              {"rss_mib", info.rss_mib}});
  if (info.gpu) out["gpu"] = *info.gpu;
  if (!info.gpu_name.empty()) out["gpu_name"] = info.gpu_name;
  if (!info.pci_address.empty()) out["pci_address"] = info.pci_address;
  if (!info.uuid.empty()) out["uuid"] = info.uuid;
  if (info.held_mib) out["held_mib"] = *info.held_mib;
  return out;
}

json to_json(const lease_info& lease) {
  json out{{"lease_id", lease.lease_id}, {"owner", lease.owner}, {"device", lease.device}, {"mib", lease.mib}, {"ends_in_s", lease.ends_in_s}};
  if (lease.pid != 0) out["pid"] = lease.pid;
  return out;
}

json to_json(const card_plan& plan) {
  return {{"device", plan.device},
          {"layers", plan.layers},
          {"reserve_mib", plan.reserve_mib},
          {"expert_slots", plan.expert_slots},
          {"expert_cache_mib", plan.expert_cache_mib},
          {"short_mib", plan.short_mib},
          {"hit_rate", plan.hit_rate},
          {"hit_rate_now", plan.hit_rate_now},
          {"ms_per_token", plan.ms_per_token},
          {"ms_per_token_now", plan.ms_per_token_now}};
}

json to_json(const status_report& report) {
  return {{"version", report.version},
          {"state", report.state},
          {"model", report.model},
          {"architecture", report.architecture},
          {"layers", report.layers},
          {"experts", report.experts},
          {"context", report.context},
          {"sessions", report.sessions},
          {"sessions_max", report.sessions_max},
          {"waiting", report.waiting},
          {"uptime_s", report.uptime_s},
          {"tokens_generated", report.tokens_generated},
          {"windows", report.windows},
          {"rss_mib", report.rss_mib},
          {"rss_anon_mib", report.rss_anon_mib},
          {"prompt_tokens", report.prompt_tokens},
          {"gap_counts", report.gap_counts},
          {"gap_ms_sum", report.gap_ms_sum}};
}

json to_json(const expert_map& map) {
  return {{"device", map.device},     {"layer_begin", map.layer_begin}, {"layer_end", map.layer_end}, {"experts", map.experts},
          {"resident", map.resident}, {"heat", map.heat},               {"heat_max", map.heat_max}};
}

namespace {

json fields_of_event(const residency_flipped& what) {
  return {{"device", what.device}, {"resident", what.resident}, {"experts_resident", what.experts_resident}, {"experts", what.experts}};
}
json fields_of_event(const resized& what) {
  json out = to_json(what.card);
  out["cause"] = what.cause;
  return out;
}
json fields_of_event(const lease_granted& what) { return to_json(what.lease); }
json fields_of_event(const lease_ended& what) {
  json out = to_json(what.lease);
  out["cause"] = what.cause;
  return out;
}
json fields_of_event(const short_of& what) { return {{"device", what.device}, {"short_mib", what.short_mib}}; }
json fields_of_event(const pressure& what) {
  return {{"device", what.device}, {"begins", what.begins}, {"free_mib", what.free_mib}, {"wanted_mib", what.wanted_mib}};
}
json fields_of_event(const card_lost& what) { return {{"device", what.device}, {"text", what.text}}; }
json fields_of_event(const model_loaded& what) { return {{"model", what.model}, {"cards", what.cards}}; }

}  // namespace

json to_json(const event& what) {
  json out{{"event", name_of_event(what.body)}, {"sequence", what.sequence}, {"unix_ms", what.unix_ms}};
  out.update(std::visit([](const auto& body) { return fields_of_event(body); }, what.body));
  return out;
}

std::string to_line(const json& what) { return what.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace ebb::bus

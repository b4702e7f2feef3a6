#include "bus/http/metrics.hpp"
#include "bus/http/metrics_text.hpp"
#include "config/limits.hpp"
#include <array>
#include <map>
#include <utility>

namespace ebb::bus::http {
namespace {

using kind = metric_kind;

double bytes_of(double mib) noexcept { return mib * (1u << 20); }

void write_daemon(metrics_text& out, const status_report& now) {
  const auto one = [&](std::string_view name, kind of, std::string_view help, double value) {
    out.family(name, of, help);
    out.sample({}, value);
  };
  out.family("ebb_info", kind::gauge, "Always 1; its labels say what runs.");
  out.sample({{"version", now.version}, {"model", now.model}, {"architecture", now.architecture}, {"state", now.state}}, 1);
  one("ebb_ready", kind::gauge, "Whether the model is loaded and answers are given.", now.state == "ready" ? 1 : 0);
  one("ebb_uptime_seconds", kind::gauge, "Since the daemon started.", now.uptime_s);
  one("process_resident_memory_bytes", kind::gauge, "Of the daemon, mapped files among them.", bytes_of(now.rss_mib));
  one("ebb_anonymous_memory_bytes", kind::gauge, "Of the daemon, without mapped files.", bytes_of(now.rss_anon_mib));
  one("ebb_sessions", kind::gauge, "Answers that are under way.", now.sessions);
  one("ebb_sessions_limit", kind::gauge, "Answers that can be under way at once.", now.sessions_max);
  one("ebb_sessions_waiting", kind::gauge, "Answers that wait for a place.", now.waiting);
  one("ebb_tokens_generated_total", kind::counter, "Tokens of answers.", static_cast<double>(now.tokens_generated));
  one("ebb_prompt_tokens_total", kind::counter, "Tokens of prompts that were read.", static_cast<double>(now.prompt_tokens));
  one("ebb_windows_total", kind::counter, "Passes of a batch of rows through all stages.", static_cast<double>(now.windows));
  std::array<double, limits::gap_bounds_ms.size()> bounds_s;
  for (std::size_t i = 0; i < bounds_s.size(); ++i) bounds_s[i] = limits::gap_bounds_ms[i] / 1000;
  out.family("ebb_token_gap_seconds", kind::histogram, "Between two tokens of an answer.");
  out.histogram(bounds_s, now.gap_counts, now.gap_ms_sum / 1000);
}

// A family with one sample a card.
template <class Value>
void of_each(metrics_text& out, const cards_report& all, std::string_view name, kind of, std::string_view help, Value value) {
  out.family(name, of, help);
  for (const card_info& card : all.cards) {
    out.sample({{"card", std::to_string(card.report.device)}}, static_cast<double>(value(card)));
  }
}

void write_cards(metrics_text& out, const cards_report& all) {
  out.family("ebb_card_info", kind::gauge, "Always 1; its labels say which device a card has, and which layers.");
  for (const card_info& card : all.cards) {
    out.sample({{"card", std::to_string(card.report.device)},
                {"kind", card.kind},
                {"name", card.gpu_name},
                {"uuid", card.uuid},
                {"pci_address", card.pci_address},
                {"layer_begin", std::to_string(card.layer_begin)},
                {"layer_end", std::to_string(card.layer_end)}},
               1);
  }
  const auto bytes = [&](std::string_view name, std::string_view help, auto mib) {
    of_each(out, all, name, kind::gauge, help, [&](const card_info& card) { return bytes_of(mib(card)); });
  };
  bytes("ebb_card_memory_bytes", "Of the whole device.", [](const card_info& card) { return card.memory_mib; });
  bytes("ebb_card_free_bytes", "Free on the device, by the driver's own figure.", [](const card_info& card) { return card.report.vram_free_mib; });
  bytes("ebb_card_reserve_bytes", "That shall be free.", [](const card_info& card) { return static_cast<double>(card.report.reserve_mib); });
  bytes("ebb_card_short_bytes", "That the last resize could not free of what was asked for.", [](const card_info& card) { return card.report.short_mib; });
  bytes("ebb_card_cache_bytes", "Of the cache, mapped.", [](const card_info& card) { return card.report.expert_cache_mib; });
  bytes("ebb_card_cache_full_bytes", "Of the cache at its full size.", [](const card_info& card) { return card.report.expert_cache_full_mib; });
  bytes("ebb_card_held_bytes", "That the card holds of its device in all, without the context.",
        [](const card_info& card) { return card.held_mib.value_or(card.rss_mib); });
  of_each(out, all, "ebb_card_slots", kind::gauge, "Slots for experts.", [](const card_info& card) { return card.report.expert_slots; });
  of_each(out, all, "ebb_card_slots_full", kind::gauge, "Slots for experts at the cache's full size.", [](const card_info& card) { return card.report.expert_slots_full; });
  of_each(out, all, "ebb_card_slots_to_fill", kind::gauge, "Slots that wait for their expert; 0 when a refill is over.", [](const card_info& card) { return card.slots_to_fill; });
  of_each(out, all, "ebb_card_resident", kind::gauge, "Whether every expert of the stage is in a slot.", [](const card_info& card) { return card.resident; });
  of_each(out, all, "ebb_card_fast_path", kind::gauge, "Whether windows take the fast path.", [](const card_info& card) { return card.fast_path; });
  of_each(out, all, "ebb_card_flips_total", kind::counter, "Times the stage became resident, or stopped being so.", [](const card_info& card) { return card.flips; });
  of_each(out, all, "ebb_card_last_resize_seconds", kind::gauge, "What the last resize took.", [](const card_info& card) { return card.report.took_ms / 1000; });
  of_each(out, all, "ebb_card_expert_hits_total", kind::counter, "Experts that a row needed and a slot had.", [](const card_info& card) { return card.hits; });
  out.family("ebb_card_expert_misses_total", kind::counter, "Experts that a row needed and no slot had, by the way that served them.");
  for (const card_info& card : all.cards) {
    const std::string number = std::to_string(card.report.device);
    out.sample({{"card", number}, {"way", "cpu"}}, static_cast<double>(card.misses_cpu));
    out.sample({{"card", number}, {"way", "copied"}}, static_cast<double>(card.misses_copied));
  }
}

// By owner, since a lease's own number would make a series of each.
void write_leases(metrics_text& out, const lease_report& all) {
  std::map<std::pair<std::uint32_t, std::string>, std::pair<double, std::uint32_t>> of_owner;  // MiB and number
  for (const lease_info& each : all.leases) {
    auto& [mib, count] = of_owner[{each.device, each.owner}];
    mib += each.mib;
    ++count;
  }
  out.family("ebb_card_lent_bytes", kind::gauge, "Promised to other programs by leases.");
  for (const auto& [whose, what] : of_owner) out.sample({{"card", std::to_string(whose.first)}, {"owner", whose.second}}, bytes_of(what.first));
  out.family("ebb_card_leases", kind::gauge, "Leases that hold.");
  for (const auto& [whose, what] : of_owner) out.sample({{"card", std::to_string(whose.first)}, {"owner", whose.second}}, what.second);
}

}  // namespace

std::string metrics_of(const status_report& now, const std::optional<cards_report>& cards, const std::optional<lease_report>& leases) {
  metrics_text out;
  write_daemon(out, now);
  if (cards) write_cards(out, *cards);
  if (leases) write_leases(out, *leases);
  return out.text();
}

}  // namespace ebb::bus::http

// tools/ebb/ask_daemon.cpp: the commands that ask a running daemon: generate, vram, plan, status.
#include "config/utf8.hpp"
#include "config/limits.hpp"
#include "tools/connection.hpp"
#include "tools/ebb/reach.hpp"
#include "tools/ebb/streaming.hpp"
#include "tools/exit_code.hpp"
#include "bus/to_json.hpp"
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>

namespace ebb::tools {
namespace {

constexpr double gap_ms_seen = 50;  // what a reader notices; one of limits::gap_bounds_ms

result<std::optional<std::uint32_t>> reserve_of(const std::string& text) {
  if (text == "-") return std::nullopt;
  std::uint32_t mib = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), mib);
  if (failure != std::errc{} || end != text.data() + text.size()) {
    return fail(errc::bad_value, in_quotes(text) + " is no number of MiB; give a whole number from 0 to " + std::to_string(UINT32_MAX) +
                                     ", or - for the reserve of the start");
  }
  return mib;
}

void print_card(const bus::card_report& card) {
  std::printf("card %u  reserve %u MiB  free %.1f MiB  experts %u of %u  cache %.1f of %.1f MiB", card.device, card.reserve_mib,
              card.vram_free_mib, card.expert_slots, card.expert_slots_full, card.expert_cache_mib, card.expert_cache_full_mib);
}

void print_vram(const bus::vram_report& report) {
  for (const auto& card : report.cards) {
    print_card(card);
    std::printf("  took %.2f ms", card.took_ms);
    if (card.short_mib > 0) std::printf("  SHORT by %.1f MiB: the cache is at its floor", card.short_mib);
    std::printf("\n");
  }
}

void print_speed(double tokens_per_s) {
  if (tokens_per_s > 0) std::printf("%.1f tokens/s", tokens_per_s);
  else std::printf("tokens/s not measured yet");
}

void print_plan(const bus::plan_report& report) {
  for (const auto& card : report.cards) {
    std::printf("card %u  reserve %u MiB  experts %u  cache %.1f MiB  hit rate %.1f %% (now %.1f %%)", card.device, card.reserve_mib, card.expert_slots,
                card.expert_cache_mib, 100 * card.hit_rate, 100 * card.hit_rate_now);
    if (card.short_mib > 0) std::printf("  SHORT by %.1f MiB", card.short_mib);
    std::printf("\n");
  }
  std::printf("together  hit rate %.1f %% (now %.1f %%)  ", 100 * report.hit_rate, 100 * report.hit_rate_now);
  print_speed(report.tokens_per_s);
  std::printf(" (now ");
  print_speed(report.tokens_per_s_now);
  std::printf(")\n");
}

unsigned long long shown(std::uint64_t number) { return number; }

void print_gaps(const bus::status_report& now) {
  std::uint64_t all = 0, late = 0;
  for (std::size_t i = 0; i < now.gap_counts.size(); ++i) {
    all += now.gap_counts[i];
    const bool seen = i >= limits::gap_bounds_ms.size() || limits::gap_bounds_ms[i] > gap_ms_seen;
    if (seen) late += now.gap_counts[i];
  }
  if (all == 0) return;
  std::printf("gaps between tokens %.1f ms on average, %.2f %% above %.0f ms\n", now.gap_ms_sum / static_cast<double>(all),
              100 * static_cast<double>(late) / static_cast<double>(all), gap_ms_seen);
}

void print_use(const bus::card_info& card) {
  std::printf("  misses: %llu on the CPU, %llu copied; %llu flips", shown(card.misses_cpu), shown(card.misses_copied), shown(card.flips));
  if (card.slots_to_fill > 0) std::printf("; %u slots to fill", card.slots_to_fill);
  std::printf("\n");
}

void print_status(const bus::status_report& now, const bus::cards_report& cards) {
  std::printf("ebbd %s  %s  up %.0f s\n", on_one_line(now.version).c_str(), on_one_line(now.state).c_str(), now.uptime_s);
  std::printf("model %s (%s, %u layers, %u experts), context %u\n", on_one_line(now.model).c_str(), on_one_line(now.architecture).c_str(), now.layers, now.experts, now.context);
  std::printf("sessions %u of %u, %u waiting; %llu tokens in %llu windows, %llu prompt tokens read\n", now.sessions, now.sessions_max, now.waiting,
              shown(now.tokens_generated), shown(now.windows), shown(now.prompt_tokens));
  print_gaps(now);
  std::printf("memory %.1f MiB resident, %.1f MiB of it its own\n", now.rss_mib, now.rss_anon_mib);
  for (const auto& card : cards.cards) {
    print_card(card.report);
    const double picks = static_cast<double>(card.hits + card.misses);
    std::printf("  %s layers %u-%u  hit rate %.1f %%%s\n", on_one_line(card.kind).c_str(), card.layer_begin, card.layer_end - 1,
                picks > 0 ? 100 * static_cast<double>(card.hits) / picks : 0, card.fast_path ? "  fast path" : "");
    if (card.gpu) {
      std::printf("  GPU %u: %s, %s, %s; holds %.1f MiB\n", *card.gpu, on_one_line(card.gpu_name).c_str(), on_one_line(card.pci_address).c_str(),
                  on_one_line(card.uuid).c_str(), card.held_mib.value_or(0));
    }
    print_use(card);
  }
}

}  // namespace

int generate(const daemon_choice& daemon, const generate_options& options) {
  if (first_invalid_utf8(options.asked.prompt)) {
    return report_error({errc::bad_value, "the prompt is no UTF-8, which the bus carries; `ebb run` takes any bytes"});
  }
  auto reached = reach(daemon);
  if (!reached) return report_no_daemon(reached.error());
  return stream_answer(**reached, options);
}

int vram(const daemon_choice& daemon, const vram_options& options) {
  const auto reserve = reserve_of(options.reserve);
  if (!reserve) return report_error(reserve.error());
  auto reached = reach(daemon);
  if (!reached) return report_no_daemon(reached.error());
  const auto reply = ask(**reached, bus::vram{*reserve, options.device}, limits::resize_timeout);
  if (!reply) return report_error(reply.error());
  const auto& report = std::get<bus::vram_report>(reply->body);
  if (options.json) std::cout << bus::to_line(to_json(*reply)) << std::endl;
  else print_vram(report);
  const bool is_short = std::any_of(report.cards.begin(), report.cards.end(), [](const auto& card) { return card.short_mib > 0; });
  return is_short ? exit_failed : exit_ok;  // what looks like success to a script must be one
}

int plan(const daemon_choice& daemon, const vram_options& options) {
  const auto reserve = reserve_of(options.reserve);
  if (!reserve) return report_error(reserve.error());
  auto reached = reach(daemon);
  if (!reached) return report_no_daemon(reached.error());
  const auto reply = ask(**reached, bus::plan{*reserve, options.device}, limits::status_timeout);
  if (!reply) return report_error(reply.error());
  if (options.json) std::cout << bus::to_line(to_json(*reply)) << std::endl;
  else print_plan(std::get<bus::plan_report>(reply->body));
  return exit_ok;
}

int status(const daemon_choice& daemon, bool json) {
  auto reached = reach(daemon);
  if (!reached) return report_no_daemon(reached.error());
  const auto now = ask(**reached, bus::status{}, limits::status_timeout);
  if (!now) return report_error(now.error());
  const auto cards = ask(**reached, bus::cards{}, limits::status_timeout);
  if (!cards) return report_error(cards.error());
  if (json) {
    auto out = to_json(*now);
    out["cards"] = to_json(*cards)["cards"];
    std::cout << bus::to_line(out) << std::endl;
  } else {
    print_status(std::get<bus::status_report>(now->body), std::get<bus::cards_report>(cards->body));
  }
  return exit_ok;
}

}  // namespace ebb::tools

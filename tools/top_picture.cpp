#include "tools/top_picture.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include "tools/memory_parts.hpp"
#include "tools/terminal_text.hpp"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <span>
#include <utility>

namespace ebb::tools {
namespace {

constexpr const char* glyph_cache = "█";
constexpr const char* glyph_rest = "▓";
constexpr const char* glyph_beside = "▞";
constexpr const char* glyph_lent = "▒";
constexpr const char* glyph_others = "░";
constexpr const char* glyph_free = "·";
constexpr std::array<const char*, 8> heights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, 4> in_slot_by_use{"░", "▒", "▓", "█"};  // not used lately, to used most
constexpr const char* missing_and_used = "•";
constexpr double gap_span_s = 60;

[[gnu::format(printf, 1, 2)]] std::string print(const char* form, ...) {
  char text[512];
  va_list values;
  va_start(values, form);
  std::vsnprintf(text, sizeof text, form, values);
  va_end(values);
  return text;
}

std::string repeated(const char* what, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += what;
  return out;
}

std::string clock(double seconds) {
  const auto whole = static_cast<long long>(std::max(0.0, seconds));
  return whole >= 3600 ? print("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60) : print("%lld:%02lld", whole / 60, whole % 60);
}

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::string size_text(double mib) { return mib >= 10240 ? print("%.1f GiB", mib / 1024) : mib >= 100 ? print("%.0f MiB", mib) : print("%.1f MiB", mib); }

// The newest at the right.
template <class Value>
std::string course(const std::deque<top_rate>& rates, std::size_t columns, double top, Value value) {
  std::string out;
  const std::size_t shown = std::min(columns, rates.size());
  for (std::size_t i = rates.size() - shown; i < rates.size(); ++i) {
    const std::optional<double> of = value(rates[i]);
    if (!of) out += " ";
    else out += heights[static_cast<std::size_t>(std::clamp(top > 0 ? *of / top * 7.999 : 0, 0.0, 7.999))];
  }
  return out;
}

// Parts of a whole as runs of glyphs that fill `columns` to the last one, and none of a part that is there is invisible where there is room.
std::string bar(std::span<const std::pair<const char*, double>> parts, std::size_t columns) {
  double total = 0, up_to_here = 0;
  for (const auto& [glyph, mib] : parts) total += mib;
  std::string out;
  std::size_t drawn = 0;
  for (const auto& [glyph, mib] : parts) {
    up_to_here += mib;
    auto end = static_cast<std::size_t>(std::lround(total > 0 ? up_to_here / total * static_cast<double>(columns) : 0));
    if (mib > 0) end = std::max(end, drawn + 1);
    end = std::min(end, columns);
    out += repeated(glyph, end - std::min(drawn, end));
    drawn = std::max(drawn, end);
  }
  return out + repeated(glyph_free, columns - drawn);
}

// Byte `at` of hex digits; 0 beyond them.
int byte_of(const std::string& hex, std::size_t at) {
  if (2 * at + 2 > hex.size()) return 0;
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  return value(hex[2 * at]) * 16 + value(hex[2 * at + 1]);
}

// A cell a group of experts: a block where most are in slots, the darker the more they were used lately, else a dot.
std::string layer_cells(const bus::expert_map& map, std::uint32_t row_begin, std::uint32_t row_end, std::size_t columns) {
  const std::size_t cells = std::min<std::size_t>(columns, map.experts);
  std::string out;
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const std::size_t begin = cell * map.experts / cells, end = (cell + 1) * map.experts / cells;
    std::size_t in_slots = 0;
    int hottest = 0;
    for (std::uint32_t row = row_begin; row < row_end; ++row) {
      for (std::size_t expert = begin; expert < end; ++expert) {
        const std::size_t number = std::size_t{row} * map.experts + expert;
        in_slots += static_cast<std::size_t>(byte_of(map.resident, number / 8) >> (number % 8) & 1);
        hottest = std::max(hottest, byte_of(map.heat, number));
      }
    }
    const bool mostly = 2 * in_slots >= (end - begin) * (row_end - row_begin);
    if (!mostly) out += hottest > 0 ? missing_and_used : glyph_free;
    else out += in_slot_by_use[hottest == 0 ? 0 : 1 + static_cast<std::size_t>(hottest - 1) * 3 / 255];
  }
  return out;
}

void add_experts(std::vector<std::string>& lines, const bus::expert_map& map, std::size_t rows, std::size_t columns) {
  const std::uint32_t layers = map.layer_end - map.layer_begin;
  if (layers == 0 || map.experts == 0 || rows == 0) return;
  const auto shown = static_cast<std::uint32_t>(std::min<std::size_t>(rows, layers));
  for (std::uint32_t row = 0; row < shown; ++row) {
    const std::uint32_t begin = row * layers / shown, end = (row + 1) * layers / shown;
    const std::uint32_t first = map.layer_begin + begin, last = map.layer_begin + end - 1;
    const std::string name = first == last ? print("%u", first) : print("%u-%u", first, last);
    lines.push_back(print("  layer %-8s", name.c_str()) + layer_cells(map, begin, end, columns > 18 ? columns - 18 : 1));
  }
}

void add_card(std::vector<std::string>& lines, const top_sample& now, const bus::card_info& card, std::size_t columns) {
  const bus::card_report& report = card.report;
  std::string head = print("card %u  ", report.device);
  if (card.gpu) head += print("GPU %u %s  ", *card.gpu, on_one_line(card.gpu_name).c_str());
  else head += on_one_line(card.kind) + "  ";
  head += print("layers %u-%u  slots %u of %u", card.layer_begin, card.layer_end == 0 ? 0 : card.layer_end - 1, report.expert_slots, report.expert_slots_full);
  head += print("  reserve %s", size_text(report.reserve_mib).c_str());
  if (card.fast_path) head += "  fast path";
  if (card.slots_to_fill > 0) head += print("  %u slots to fill", card.slots_to_fill);
  if (report.short_mib > 0) head += print("  SHORT by %s", size_text(report.short_mib).c_str());
  lines.push_back(std::move(head));
  const memory_parts of = parts_of(card, now.cards.cards, now.leases.leases);
  const std::array<std::pair<const char*, double>, 6> parts{{{glyph_cache, of.cache}, {glyph_rest, of.rest}, {glyph_beside, of.beside},
                                                              {glyph_lent, of.lent}, {glyph_others, of.others}, {glyph_free, of.free}}};
  lines.push_back("  " + bar(parts, columns > 4 ? columns - 4 : 1));
  std::string legend = " ";
  constexpr std::array names{"cache", "weights and buffers", "other cards", "lent", "others", "free"};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool always = i == 0 || i == 3 || i == 5;
    if (always || parts[i].second > 0) legend += print(" %s %s %s ", parts[i].first, names[i], size_text(parts[i].second).c_str());
  }
  lines.push_back(std::move(legend));
}

void add_leases(std::vector<std::string>& lines, const std::vector<bus::lease_info>& leases) {
  if (leases.empty()) return lines.push_back("nothing is lent");
  for (const bus::lease_info& each : leases) {
    lines.push_back(print("lease %llu  card %u  %s  ", static_cast<unsigned long long>(each.lease_id), each.device, size_text(each.mib).c_str()) +
                    on_one_line(each.owner) + "  " + clock(each.ends_in_s) + " left" + (each.pid != 0 ? print("  process %u", each.pid) : ""));
  }
}

void add_head(std::vector<std::string>& lines, const top_history& history, std::size_t columns) {
  const bus::status_report& now = history.latest()->status;
  lines.push_back(print("ebbd %s  %s  ", on_one_line(now.version).c_str(), on_one_line(now.state).c_str()) + on_one_line(file_name(now.model)) +
                  "  up " + clock(now.uptime_s) + print("  answers %u of %u, %u waiting", now.sessions, now.sessions_max, now.waiting));
  if (history.rates().empty()) return lines.push_back("tokens/s: in a moment");
  double most = 1;
  for (const top_rate& each : history.rates()) most = std::max(most, each.tokens_per_s);
  const top_rate& last = history.rates().back();
  const std::size_t room = columns > 56 ? (columns - 52) / 2 : 2;
  lines.push_back(print("tokens/s %7.1f  ", last.tokens_per_s) + course(history.rates(), room, most, [](const top_rate& r) { return std::optional(r.tokens_per_s); }) +
                  (last.hit_rate ? print("  hit rate %5.1f %%  ", 100 * *last.hit_rate) : std::string("  hit rate     -    ")) +
                  course(history.rates(), room, 1, [](const top_rate& r) { return r.hit_rate; }));
  std::optional<double> longest;
  for (const top_rate& each : history.rates()) {
    if (each.longest_gap_ms && last.at_s - each.at_s < gap_span_s) longest = std::max(longest.value_or(0), *each.longest_gap_ms);
  }
  if (!longest) return lines.push_back("no gap between two tokens in the last minute");
  if (std::isinf(*longest)) return lines.push_back(print("longest gap of two tokens in the last minute: above %.0f ms", limits::gap_bounds_ms.back()));
  lines.push_back(print("longest gap of two tokens in the last minute: at most %.0f ms", *longest));
}

}  // namespace

std::optional<top_rate> rate_between(const top_sample& before, const top_sample& now) {
  const double elapsed_s = now.at_s - before.at_s;
  if (elapsed_s <= 0 || now.status.tokens_generated < before.status.tokens_generated || now.status.uptime_s < before.status.uptime_s) return std::nullopt;
  top_rate rate{.at_s = now.at_s, .tokens_per_s = static_cast<double>(now.status.tokens_generated - before.status.tokens_generated) / elapsed_s};
  for (std::size_t i = 0; i < std::min(now.status.gap_counts.size(), before.status.gap_counts.size()); ++i) {
    if (now.status.gap_counts[i] <= before.status.gap_counts[i]) continue;
    rate.longest_gap_ms = i < limits::gap_bounds_ms.size() ? limits::gap_bounds_ms[i] : std::numeric_limits<double>::infinity();
  }
  const auto counted = [](const top_sample& of) {
    std::pair<std::uint64_t, std::uint64_t> sums;  // hits, and all
    for (const bus::card_info& card : of.cards.cards) sums.first += card.hits, sums.second += card.hits + card.misses;
    return sums;
  };
  const auto [hits_before, all_before] = counted(before);
  const auto [hits, all] = counted(now);
  if (all > all_before && hits >= hits_before) rate.hit_rate = static_cast<double>(hits - hits_before) / static_cast<double>(all - all_before);
  return rate;
}

void top_history::add(top_sample now) {
  if (latest_) {
    if (const auto rate = rate_between(*latest_, now)) rates_.push_back(*rate);
    else rates_.clear();
    if (rates_.size() > rates_max) rates_.pop_front();
  }
  latest_ = std::move(now);
}

std::vector<std::string> draw(const top_history& history, top_size size) {
  EBB_ASSERT(history.latest());
  const top_sample& now = *history.latest();
  std::vector<std::string> lines;
  add_head(lines, history, size.columns);
  // The maps take what the rest leaves, shared out evenly, since they shrink well.
  const std::size_t fixed = lines.size() + 4 * now.cards.cards.size() + std::max<std::size_t>(1, now.leases.leases.size()) + 1;
  const std::size_t left = size.rows > fixed ? size.rows - fixed : 0;
  const std::size_t rows_of_map = now.experts.cards.empty() ? 0 : left / now.experts.cards.size();
  for (const bus::card_info& card : now.cards.cards) {
    lines.emplace_back();
    add_card(lines, now, card, size.columns);
    for (const bus::expert_map& map : now.experts.cards) {
      if (map.device == card.report.device) add_experts(lines, map, rows_of_map, size.columns);
    }
  }
  lines.emplace_back();
  add_leases(lines, now.leases.leases);
  if (lines.size() > size.rows) {
    lines.resize(size.rows);
    if (!lines.empty()) lines.back() = "... more than this terminal has lines for";
  }
  for (std::string& line : lines) line = cut_to_columns(line, size.columns);
  return lines;
}

}  // namespace ebb::tools

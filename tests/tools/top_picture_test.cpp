#include "tools/top_picture.hpp"
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include "tools/terminal_text.hpp"
#include <algorithm>
#include <catch2/catch.hpp>

namespace ebb::tools {
namespace {

using Catch::Contains;

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

// Two layers of eight experts, all of the first in slots and the first half of the second.
top_sample sample_at(double at_s, std::uint64_t tokens, std::uint64_t hits, std::uint64_t misses) {
  top_sample now;
  now.at_s = at_s;
  now.status.version = "0.1.0", now.status.state = "ready", now.status.model = "/models/chapbook.gguf";
  now.status.uptime_s = 3600 + at_s;
  now.status.sessions = 1, now.status.sessions_max = 4, now.status.waiting = 2;
  now.status.tokens_generated = tokens;
  bus::card_info card;
  card.kind = "host";
  card.layer_begin = 0, card.layer_end = 2;
  card.hits = hits, card.misses = misses;
  card.memory_mib = 100;
  card.report.reserve_mib = 5;
  card.report.expert_cache_mib = 40, card.report.expert_slots = 12, card.report.expert_slots_full = 16, card.report.vram_free_mib = 60;
  now.cards.cards = {card};
  now.experts.cards = {{.device = 0, .layer_begin = 0, .layer_end = 2, .experts = 8, .resident = "ff0f", .heat = "ff00000000000000" "0100000000000001", .heat_max = 9}};
  return now;
}

top_history two_seconds() {
  top_history history;
  history.add(sample_at(10, 100, 1000, 0));
  top_sample now = sample_at(12, 350, 1900, 100);
  now.status.gap_counts[2] = 240, now.status.gap_counts[4] = 9;
  history.add(now);
  return history;
}

}  // namespace

TEST_CASE("the picture has the rates of the last interval, each card's memory, its experts and who was lent what") {
  top_history history = two_seconds();
  top_sample now = sample_at(14, 350, 1900, 100);
  now.status.gap_counts = history.latest()->status.gap_counts;
  bus::lease_info lease;
  lease.lease_id = 7, lease.owner = "comfy", lease.mib = 20, lease.ends_in_s = 272, lease.pid = 4242;
  now.leases.leases = {lease};
  CHECK_THAT(joined(draw(history, {100, 40})),
             Contains("ebbd 0.1.0  ready  chapbook.gguf  up 1:00:12  answers 1 of 4, 2 waiting\n") && Contains("tokens/s   125.0 ") &&
                 Contains("hit rate  90.0 %") && Contains("card 0  host  layers 0-1  slots 12 of 16  reserve 5.0 MiB\n") && Contains("longest gap of two tokens in the last minute: at most 20 ms\n") && Contains("█ cache 40.0 MiB") &&
                 Contains("· free 60.0 MiB") && Contains("  layer 0       █░░░░░░░\n  layer 1       ▒░░░···•\n") && Contains("nothing is lent"));
  history.add(now);
  CHECK_THAT(joined(draw(history, {100, 40})), Contains("tokens/s     0.0 ") && Contains("hit rate     -") &&
                                                   Contains("lease 7  card 0  20.0 MiB  comfy  4:32 left  process 4242\n") &&
                                                   Contains("▒ lent 20.0 MiB") && Contains("· free 40.0 MiB"));
}

TEST_CASE("no line is wider than the terminal, no picture higher, and what is left out is said") {
  top_history history = two_seconds();
  top_sample now = sample_at(14, 400, 2000, 100);
  for (std::uint64_t i = 0; i < 40; ++i) {
    bus::lease_info lease;
    lease.lease_id = i, lease.owner = (i % 2 == 0 ? std::string(300, 'o') : std::string("\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587")), lease.mib = 1;
    now.leases.leases.push_back(lease);
  }
  history.add(now);
  for (const std::size_t columns : {1u, 10u, 20u, 79u, 80u, 200u}) {
    for (const std::size_t rows : {1u, 2u, 10u, 24u, 60u}) {
      const auto lines = draw(history, {columns, rows});
      CHECK(lines.size() <= rows);
      for (const std::string& line : lines) CHECK(columns_of(line) <= columns);
    }
  }
  CHECK_THAT(draw(history, {80, 24}).back(), Contains("more than this terminal"));
  CHECK_THAT(draw(history, {200, 60}).back(), Contains("lease 39"));
}

TEST_CASE("a bar is as wide as its terminal allows, and shows each part that is there") {
  top_history history = two_seconds();
  top_sample now = sample_at(14, 400, 2000, 100);
  now.cards.cards[0].report.expert_cache_mib = 0.01;
  now.cards.cards[0].report.vram_free_mib = 99.99;
  history.add(now);
  const auto lines = draw(history, {80, 40});
  const auto bar = std::find_if(lines.begin(), lines.end(), [](const std::string& line) { return line.starts_with("  █"); });
  REQUIRE(bar != lines.end());
  CHECK(columns_of(*bar) == 78);
}

TEST_CASE("names from elsewhere neither command the terminal nor forge a line") {
  top_history history = two_seconds();
  top_sample now = sample_at(14, 400, 2000, 100);
  bus::lease_info lease;
  lease.owner = "x\x1b[2J\nlease 9 card 0\xff";
  now.leases.leases = {lease};
  now.status.model = "a/\x1b]0;title\x07.gguf";
  history.add(now);
  for (const std::string& line : draw(history, {200, 40})) {
    CHECK(is_valid_utf8(line));
    CHECK(std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
  }
}

TEST_CASE("a daemon that was started again begins a new course, and a model that loads has no cards yet") {
  top_history history = two_seconds();
  top_sample again = sample_at(14, 5, 10, 0);
  again.status.uptime_s = 1;
  history.add(again);
  CHECK(history.rates().empty());
  top_sample loading;
  loading.at_s = 15;
  loading.status.state = "loading";
  history.add(loading);
  CHECK_THAT(joined(draw(history, {80, 24})), Contains("loading"));
}

}  // namespace ebb::tools

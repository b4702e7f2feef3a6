#include "bus/http/metrics.hpp"
#include "bus/http/metrics_text.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <set>
#include <sstream>

namespace ebb::bus::http {
namespace {

using Catch::Contains;

status_report ready() {
  status_report now;
  now.version = "0.1.0";
  now.state = "ready";
  now.model = "/models/a \"good\" one.gguf";
  now.sessions = 2;
  now.tokens_generated = 1234567890123;
  now.gap_counts = {0, 3, 2, 0, 0, 0, 0, 0, 0, 0, 1};
  now.gap_ms_sum = 1515.5;
  return now;
}

cards_report two_cards() {
  card_info gpu;
  gpu.report.device = 1;
  gpu.report.expert_cache_mib = 64;
  gpu.kind = "cuda";
  gpu.uuid = "GPU-0011";
  gpu.held_mib = 100.5;
  gpu.misses = 7, gpu.misses_cpu = 3, gpu.misses_copied = 4;
  card_info host;
  host.kind = "host";
  host.resident = true;
  host.rss_mib = 2;
  return {{host, gpu}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a histogram counts in each bucket all that is at most its bound, and ends with the sum and the count") {
  metrics_text out;
  out.family("gap_seconds", metric_kind::histogram, "Between two.");
  out.histogram(std::array{0.001, 0.25}, std::array<std::uint64_t, 3>{5, 0, 2}, 1.5);
  CHECK(out.text() ==
        "# HELP gap_seconds Between two.\n# TYPE gap_seconds histogram\n"
        "gap_seconds_bucket{le=\"0.001\"} 5\ngap_seconds_bucket{le=\"0.25\"} 5\ngap_seconds_bucket{le=\"+Inf\"} 7\n"
        "gap_seconds_sum 1.5\ngap_seconds_count 7\n");
}

TEST_CASE("a label's quotes, backslashes, line ends and broken UTF-8 cannot end its line") {
  metrics_text out;
  out.family("lent", metric_kind::gauge, "a \\ and a\nline");
  out.sample({{"owner", "a\"b\\c\nd\xff"}, {"card", "0"}}, 3);
  CHECK(out.text() == "# HELP lent a \\\\ and a\\nline\n# TYPE lent gauge\nlent{owner=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD\",card=\"0\"} 3\n");
}

TEST_CASE("numbers are written in full, and those that are none as Prometheus reads them") {
  metrics_text out;
  out.family("x", metric_kind::gauge, "");
  for (const double value : {1234567890123.0, 0.1, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) out.sample({}, value);
  CHECK_THAT(out.text(), Contains("x 1234567890123\n") && Contains("x 0.1\n") && Contains("x -Inf\n") && Contains("x NaN\n"));
}

TEST_CASE("metrics show the daemon, each card, misses by their way, and what is lent by owner") {
  lease_report leases;
  leases.leases = {{1, "comfy", 1, 100, 5, 0}, {2, "comfy", 1, 28, 5, 0}, {3, "blender", 0, 64, 5, 0}};
  const std::string text = metrics_of(ready(), two_cards(), leases);
  for (const char* line : {
           "ebb_info{version=\"0.1.0\",model=\"/models/a \\\"good\\\" one.gguf\",architecture=\"\",state=\"ready\"} 1\n",
           "ebb_ready 1\n",
           "ebb_tokens_generated_total 1234567890123\n",
           "ebb_token_gap_seconds_bucket{le=\"0.002\"} 3\n",
           "ebb_token_gap_seconds_bucket{le=\"+Inf\"} 6\n",
           "ebb_token_gap_seconds_sum 1.5155\n",
           "ebb_card_info{card=\"1\",kind=\"cuda\",name=\"\",uuid=\"GPU-0011\",pci_address=\"\",layer_begin=\"0\",layer_end=\"0\"} 1\n",
           "ebb_card_cache_bytes{card=\"1\"} 67108864\n",
           "ebb_card_held_bytes{card=\"0\"} 2097152\n",
           "ebb_card_held_bytes{card=\"1\"} 105381888\n",
           "ebb_card_resident{card=\"0\"} 1\n",
           "ebb_card_expert_misses_total{card=\"1\",way=\"cpu\"} 3\n",
           "ebb_card_expert_misses_total{card=\"1\",way=\"copied\"} 4\n",
           "ebb_card_lent_bytes{card=\"1\",owner=\"comfy\"} 134217728\n",
           "ebb_card_leases{card=\"1\",owner=\"comfy\"} 2\n",
           "ebb_card_leases{card=\"0\",owner=\"blender\"} 1\n",
       }) {
    CHECK_THAT(text, Contains(line));
  }
}

TEST_CASE("every family is named once, typed before its samples, and a counter's name ends with _total") {
  std::set<std::string> families;
  std::string now;
  for (const std::string& line : lines_of(metrics_of(ready(), two_cards(), lease_report{}))) {
    std::istringstream words(line);
    std::string first, second, name, type;
    words >> first >> second >> name >> type;
    if (second == "HELP") {
      CHECK(families.insert(name).second);
      now = name;
    } else if (second == "TYPE") {
      CHECK(name == now);
      CHECK((type == "counter") == name.ends_with("_total"));
    } else {
      CHECK(first.starts_with(now));
    }
  }
  CHECK(families.size() > 30);
}

TEST_CASE("without a model there is nothing of cards in the metrics, and they say that it is not ready") {
  status_report loading = ready();
  loading.state = "loading";
  const std::string text = metrics_of(loading, std::nullopt, std::nullopt);
  CHECK_THAT(text, Contains("ebb_ready 0\n") && !Contains("ebb_card"));
}

}  // namespace ebb::bus::http

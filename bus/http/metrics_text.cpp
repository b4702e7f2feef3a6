#include "bus/http/metrics_text.hpp"
#include "config/assert.hpp"
#include "config/utf8.hpp"
#include <array>
#include <charconv>
#include <cmath>

namespace ebb::bus::http {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> digits;
  const auto [end, failure] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  EBB_ASSERT(failure == std::errc{});
  return {digits.data(), end};
}

// In a help text quotes stay as they are.
std::string escaped(std::string_view text, bool in_quotes) {
  std::string out;
  for (const char c : repaired_utf8(text)) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else if (c == '"' && in_quotes) out += "\\\"";
    else out += c;
  }
  return out;
}

std::string_view name_of(metric_kind kind) {
  switch (kind) {
    case metric_kind::gauge: return "gauge";
    case metric_kind::counter: return "counter";
    case metric_kind::histogram: return "histogram";
  }
  return "untyped";
}

}  // namespace

void metrics_text::family(std::string_view name, metric_kind kind, std::string_view help) {
  name_ = name;
  text_ += "# HELP " + name_ + " " + escaped(help, false) + "\n# TYPE " + name_ + " " + std::string(name_of(kind)) + "\n";
}

void metrics_text::line(std::string_view suffix, labels with, double value) {
  text_ += name_;
  text_ += suffix;
  char before = '{';
  for (const auto& [label, content] : with) {
    text_ += before;
    text_ += label;
    text_ += "=\"" + escaped(content, true) + '"';
    before = ',';
  }
  if (with.size() > 0) text_ += '}';
  text_ += ' ' + number_text(value) + '\n';
}

void metrics_text::sample(labels with, double value) { line("", with, value); }

void metrics_text::histogram(std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum) {
  EBB_ASSERT(counts.size() == bounds.size() + 1);
  std::uint64_t up_to_here = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    up_to_here += counts[i];
    line("_bucket", {{"le", i < bounds.size() ? number_text(bounds[i]) : "+Inf"}}, static_cast<double>(up_to_here));
  }
  line("_sum", {}, sum);
  line("_count", {}, static_cast<double>(up_to_here));
}

}  // namespace ebb::bus::http

// bus/http/metrics_text.hpp: figures in Prometheus' text format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ebb::bus::http {

enum class metric_kind : std::uint8_t { gauge, counter, histogram };

class metrics_text {
 public:
  using labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // What the samples that follow are of. A counter's name ends with _total; units are seconds and bytes, and named.
  void family(std::string_view name, metric_kind kind, std::string_view help);
  void sample(labels with, double value);
  // A whole histogram: counts[i] of values up to bounds[i] and above the bound before, the last of those above all. Pre: one more than bounds (asserts).
  void histogram(std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum);

  const std::string& text() const noexcept { return text_; }

 private:
  void line(std::string_view suffix, labels with, double value);

  std::string text_;
  std::string name_;
};

}  // namespace ebb::bus::http

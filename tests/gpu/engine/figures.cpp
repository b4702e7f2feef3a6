#include "tests/gpu/engine/figures.hpp"
#include "tools/wide_prompt.hpp"
#include <cstdio>

namespace ebb::tools::test {

void print_head(const std::string& what) { std::printf("%-46s %-22s %10s   %s\n", what.c_str(), "shape", "median", "spread"); }

void print(const std::string& what, const std::string& shape, const std::vector<double>& values, const char* unit, std::optional<goal> bound) {
  const spread found = spread_of(values);
  std::printf("%-46s %-22s %10.2f   %.2f to %.2f %s\n", what.c_str(), shape.c_str(), found.median, found.min, found.max, unit);
  if (bound) {
    const double value = found.*bound->of;
    char text[128];
    std::snprintf(text, sizeof text, "%.2f %s, at most %.0f wanted", value, unit, bound->most);
    print_goal(value <= bound->most, what + ", " + shape + ": " + text);
  }
  std::fflush(stdout);
}

void print_goal(bool met, const std::string& what) {
  std::printf("goal: %-6s %s\n", met ? "met" : "MISSED", what.c_str());
  std::fflush(stdout);
}

std::string gib_of(double of_mib) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", of_mib / 1024);
  return text;
}

bus::generate conversation(const served& with, std::uint32_t n_tokens, std::uint32_t n_prompt, token_id first) {
  bus::generate asked = greedy(n_tokens);
  asked.prompt.clear();
  asked.ids = wide_prompt(n_prompt, with.engine().vocabulary().n_vocab());
  asked.ids.front() = first;
  return asked;
}

settings measured_on(std::vector<card_choice> cards) {
  settings from = settings_on(std::move(cards), ebb::test::where("EBB_TEST_MODEL", demo_model().c_str()));
  if (std::getenv("EBB_TEST_MODEL") != nullptr) from.vram_segment_bytes = 0;
  from.parallel = 1;
  return from;
}

}  // namespace ebb::tools::test

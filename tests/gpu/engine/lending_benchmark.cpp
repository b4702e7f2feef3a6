// What lending costs an answer: how fast memory goes and comes back, what a client feels of it, and the speed of each size of the cache. Of
// the demo model, or of the one that EBB_TEST_MODEL names.
#include "tests/gpu/engine/steady_talk.hpp"
#include "tools/wide_prompt.hpp"
#include <cstdio>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

namespace {

constexpr double lent_mib_max = 16 * 1024;
constexpr std::uint32_t repeats = 5;

bus::generate conversation(const served& with, std::uint32_t n_tokens, std::uint32_t n_prompt = 16) {
  bus::generate asked = greedy(n_tokens);
  asked.prompt.clear();
  asked.ids = wide_prompt(n_prompt, with.engine().vocabulary().n_vocab());
  return asked;
}

settings measured_on(std::vector<card_choice> cards) {
  settings from = settings_on(std::move(cards), ebb::test::where("EBB_TEST_MODEL", demo_model().c_str()));
  if (std::getenv("EBB_TEST_MODEL") != nullptr) from.vram_segment_bytes = 0;
  from.parallel = 1;
  return from;
}

// --- what is printed

// What `of` the measured values must be at most.
struct goal {
  double most;
  double spread::*of = &spread::median;
};

void print_head(const std::string& what) { std::printf("%-46s %-22s %10s   %s\n", what.c_str(), "shape", "median", "spread"); }

void print(const std::string& what, const std::string& shape, const std::vector<double>& values, const char* unit,
           std::optional<goal> bound = {}) {
  const spread found = spread_of(values);
  std::printf("%-46s %-22s %10.2f   %.2f to %.2f %s\n", what.c_str(), shape.c_str(), found.median, found.min, found.max, unit);
  if (bound) {  // tests/gpu/run gathers these lines
    const double value = found.*bound->of;
    std::printf("goal: %-6s %s, %s: %.2f %s, at most %.0f wanted\n", value <= bound->most ? "met" : "MISSED", what.c_str(), shape.c_str(),
                value, unit, bound->most);
  }
  std::fflush(stdout);
}

std::string gib_of(double of_mib) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", of_mib / 1024);
  return text;
}

// --- lending

struct phase {
  time_point began, ended;
};

struct cycle {
  phase before, going, small, coming, after;
  double moved_mib = 0;
  double lent_ms = 0, back_ms = 0;  // by the engine's own clock
};

cycle lend_and_take_back(served& with, steady_talk& talk, std::uint32_t device, double wanted_mib) {
  const auto during = [](auto act) {
    phase one{now(), {}};
    act();
    one.ended = now();
    return one;
  };
  cycle found;
  const bus::card_report full = with.card(device).report;
  found.before = during([&] { talk.wait_for_tokens(30); });
  const std::uint32_t reserve = reserve_for(with.card(device).report, std::max(0.0, full.expert_cache_mib - wanted_mib));
  found.going = during([&] {
    const auto lent = with.vram(reserve, device);
    found.moved_mib = full.expert_cache_mib - lent.expert_cache_mib;
    found.lent_ms = lent.took_ms;
  });
  found.small = during([&] { talk.wait_for_tokens(16); });
  found.coming = during([&] {
    const auto back = with.take_back(device);
    found.back_ms = back.took_ms;
    CHECK(back.expert_cache_mib == full.expert_cache_mib);
  });
  found.after = during([&] { talk.wait_for_tokens(30); });
  return found;
}

// Pre: the talk has ended.
void print_cycles(const steady_talk& talk, const std::vector<cycle>& cycles) {
  const std::string shape = gib_of(cycles.front().moved_mib);
  const auto each = [&](auto figure) {
    std::vector<double> values;
    for (const cycle& one : cycles) values.push_back(figure(one));
    return values;
  };
  const auto gap = [&](phase cycle::*of) {
    return each([&](const cycle& one) { return talk.gap_ms_max((one.*of).began, (one.*of).ended); });
  };
  const auto speed = [&](phase cycle::*of) {
    return each([&](const cycle& one) { return talk.tokens_per_s((one.*of).began, (one.*of).ended); });
  };
  const auto per_gib = [&](double cycle::*of) { return each([&](const cycle& one) { return one.*of / (one.moved_mib / 1024); }); };
  const bool large = cycles.front().moved_mib >= 1024;  // of less, a resize takes the time of its windows
  print("give back, in mid-answer", shape, per_gib(&cycle::lent_ms), "ms/GiB", large ? std::optional(goal{2}) : std::nullopt);
  print("take back with the refill, in mid-answer", shape, per_gib(&cycle::back_ms), "ms/GiB",
        large ? std::optional(goal{25}) : std::nullopt);
  print("give back, as the client waits", shape,
        each([](const cycle& one) { return actors::milliseconds_between(one.going.began, one.going.ended); }), "ms");
  print("take back, as the client waits", shape,
        each([](const cycle& one) { return actors::milliseconds_between(one.coming.began, one.coming.ended); }), "ms");
  print("largest gap of two tokens before", shape, gap(&cycle::before), "ms");
  print("largest gap of two tokens while it goes", shape, gap(&cycle::going), "ms", goal{50, &spread::max});
  print("largest gap of two tokens while small", shape, gap(&cycle::small), "ms");
  print("largest gap of two tokens while it comes back", shape, gap(&cycle::coming), "ms");
  print("largest gap of two tokens after", shape, gap(&cycle::after), "ms");
  print("decode before", shape, speed(&cycle::before), "tokens/s");
  print("decode while small", shape, speed(&cycle::small), "tokens/s");
  print("decode after", shape, speed(&cycle::after), "tokens/s");
}

// The hash of the undisturbed answer.
std::string measure_lending(served& with, std::uint32_t device, const std::string& what) {
  print_head(what);
  const bus::generate asked = conversation(with, 400);
  const std::string expected = with.answer<bus::done>(asked).hash;
  steady_talk talk(with, asked, expected);
  talk.wait_for_tokens(8);
  lend_and_take_back(with, talk, device, lent_mib_max);  // warms up
  std::vector<cycle> cycles;
  for (std::uint32_t repeat = 0; repeat < repeats; ++repeat) cycles.push_back(lend_and_take_back(with, talk, device, lent_mib_max));
  const bool same = talk.finish();
  print_cycles(talk, cycles);
  std::printf("goal: %-6s %s: the hash of %zu answers is that of the undisturbed one\n", same ? "met" : "MISSED", what.c_str(),
              talk.n_answers());
  CHECK(same);
  return expected;
}

// --- what nvidia-smi sees; none: it is not there, or does not say

std::optional<double> free_mib_by_nvidia_smi(const std::string& uuid) {
  const std::string command = "nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits -i " + uuid + " 2>/dev/null";
  FILE* const said = ::popen(command.c_str(), "r");
  if (said == nullptr) return std::nullopt;
  double found_mib = 0;
  const bool read = std::fscanf(said, "%lf", &found_mib) == 1;
  return ::pclose(said) == 0 && read ? std::optional(found_mib) : std::nullopt;
}

void compare_with_nvidia_smi(served& with) {
  const auto differences = [&](const char* when) {
    const bus::card_info card = with.card(0);
    const auto seen_mib = free_mib_by_nvidia_smi(card.uuid);
    if (!seen_mib) return false;
    const double off_mib = *seen_mib - card.report.vram_free_mib;
    std::printf("%-46s %-22s %10.2f   nvidia-smi %.0f MiB, ebb %.2f MiB\n", "free figures, difference", when, off_mib, *seen_mib,
                card.report.vram_free_mib);
    std::printf("goal: %-6s free memory by nvidia-smi, %s: %.2f MiB off, at most 2 wanted\n", std::abs(off_mib) <= 2 ? "met" : "MISSED",
                when, off_mib);
    return true;
  };
  if (!differences("all resident")) {
    std::printf("nvidia-smi does not say what is free: not compared\n");
    return;
  }
  with.bring_to(0, std::max(0.0, with.card(0).report.expert_cache_mib - lent_mib_max));
  differences("given back");
  with.take_back(0);
  differences("taken back");
}

// --- the speed of each size

void measure_sizes(served& with) {
  print_head("by the size of the cache");
  const bus::generate decode = conversation(with, 64);
  const bus::generate prompt = conversation(with, 1, 512);
  const double full_mib = with.card(0).report.expert_cache_mib;
  std::string expected;
  for (const double share : {1.0, 0.75, 0.5, 0.25, 0.0}) {
    share == 1.0 ? with.take_back(0) : with.bring_to(0, full_mib * share);
    with.answer<bus::done>(decode);  // warms up: hot experts come into the slots
    std::vector<double> decodes, prompts, hits;
    for (std::uint32_t repeat = 0; repeat < 3; ++repeat) {
      const auto decoded = with.answer<bus::done>(decode);
      const auto read = with.answer<bus::done>(prompt);
      decodes.push_back(decoded.tokens_per_s);
      hits.push_back(decoded.hit_rate * 100);
      prompts.push_back(static_cast<double>(read.prompt_tokens) * 1000 / read.prompt_ms);
      if (expected.empty()) expected = decoded.hash;
      CHECK(decoded.hash == expected);
    }
    const std::string shape = std::to_string(std::lround(share * 100)) + " % of " + gib_of(full_mib);
    print("decode, one session", shape, decodes, "tokens/s");
    print("hit rate", shape, hits, "%");
    print("prompt of 512 tokens", shape, prompts, "tokens/s");
  }
  with.take_back(0);
}

}  // namespace

TEST_CASE("what lending costs an answer", "[gpu][benchmark][engine]") {
  std::string on_one_card;
  {
    served with(measured_on({gpu_card()}));
    REQUIRE(with.card(0).resident);
    on_one_card = measure_lending(with, 0, "one card");
    compare_with_nvidia_smi(with);
    measure_sizes(with);
  }
  served with(measured_on({gpu_card(), gpu_card()}));
  CHECK(measure_lending(with, 1, "two cards on one GPU, card 1 to its floor") == on_one_card);
}

// What lending costs an answer: how fast memory goes and comes back, what a client feels of it, and the speed of each size of the cache. Of
// the demo model, or of the one that EBB_TEST_MODEL names.
#include "tests/gpu/engine/lending_cycle.hpp"
#include "tests/gpu/engine/nvidia_smi.hpp"

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

namespace {

constexpr double lent_mib_max = 16 * 1024;
constexpr std::uint32_t repeats = 5;

void compare_free_figures(served& with) {
  if (!compare_with_nvidia_smi(with, "all resident")) return;
  with.bring_to(0, std::max(0.0, with.card(0).report.expert_cache_mib - lent_mib_max));
  compare_with_nvidia_smi(with, "given back");
  with.take_back(0);
  compare_with_nvidia_smi(with, "taken back");
}

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
    on_one_card = measure_lending(with, {0}, lent_mib_max, repeats, "one card");
    compare_free_figures(with);
    measure_sizes(with);
  }
  served with(measured_on({gpu_card(), gpu_card()}));
  CHECK(measure_lending(with, {1}, lent_mib_max, repeats, "two cards on one GPU, card 1 to its floor") == on_one_card);
}

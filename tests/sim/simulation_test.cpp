// Whole daemons in miniature, thousands of them: see tests/sim/support/simulation.hpp.
//
//   EBB_SIM_SEED=n    this seed alone
//   EBB_SIM_SEEDS=n   so many seeds in all, instead of 10,000 (480 under the address sanitizer)
//   EBB_SIM_COUNTS=1  shows what struck
#include "support/simulation.hpp"
#include <cstdlib>
#include <iostream>

namespace ebb::sim {
namespace {

// Cases that ctest may run at the same time.
constexpr std::uint32_t n_shares = 8;

std::optional<std::uint32_t> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (!text) return std::nullopt;
  return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

std::uint32_t n_seeds() {
#ifdef __SANITIZE_ADDRESS__
  constexpr std::uint32_t usual = 480;
#else
  constexpr std::uint32_t usual = 10'000;
#endif
  return number_in("EBB_SIM_SEEDS").value_or(usual);
}

// What went wrong, with the last messages, or nothing. A seed that fails is run once more for its trace.
std::optional<std::string> failure_of(std::uint32_t seed, tally& all) {
  INFO("EBB_SIM_SEED=" << seed);  // shown if an assertion of ours ends the process
  try {
    simulation fast(seed);
    fast.run();
    all.add(fast.counts);
    return std::nullopt;
  } catch (const finding&) {
    simulation again(seed, true);
    try {
      again.run();
      return "EBB_SIM_SEED=" + std::to_string(seed) + ": it failed once and not again";
    } catch (const finding& what) {
      return "EBB_SIM_SEED=" + std::to_string(seed) + ": " + what.what() + "\n" + again.trace();
    }
  }
}

void show(const tally& all) {
  std::cerr << "refused:";
  for (const auto n : all.refused) std::cerr << ' ' << n;
  std::cerr << "\ncards_lost " << all.cards_lost << " writes_refused " << all.writes_refused << " holders_killed " << all.holders_killed << " clock_jumps " << all.clock_jumps
            << " neighbour_moves " << all.neighbour_moves << " clients_left " << all.clients_left << "\nleases " << all.leases << " grants_checked " << all.grants_checked
            << " regrowths " << all.regrowths << " answers " << all.answers << " requests " << all.requests << " messages " << all.messages << " errors " << all.errors << '\n';
}

void run_share(std::uint32_t share) {
  tally all;
  if (const auto only = number_in("EBB_SIM_SEED")) {
    if (*only % n_shares != share) return;
    if (const auto wrong = failure_of(*only, all)) FAIL(*wrong);
    return;
  }
  const std::uint32_t n_mine = n_seeds() / n_shares;
  for (std::uint32_t i = 0; i < n_mine; ++i) {
    if (const auto wrong = failure_of(i * n_shares + share, all)) FAIL(*wrong);
  }
  if (std::getenv("EBB_SIM_COUNTS")) show(all);
  if (n_mine < 100) return;
  // A simulation that injects nothing, or looks at nothing, is none.
  for (const operation kind : {operation::map, operation::unmap, operation::copy_in, operation::copy_within, operation::finish_copies, operation::read_free})
    CHECK(all.refused[static_cast<std::size_t>(kind)] >= n_mine / 20);
  CHECK(all.refused[static_cast<std::size_t>(operation::remap)] >= n_mine / 400);  // needs a refused unmap before it
  CHECK(all.cards_lost >= n_mine / 50);
  CHECK(all.writes_refused >= n_mine / 50);
  CHECK(all.holders_killed >= n_mine / 10);
  CHECK(all.clock_jumps >= n_mine / 10);
  CHECK(all.neighbour_moves >= n_mine);
  CHECK(all.clients_left >= n_mine / 5);
  CHECK(all.leases >= n_mine / 2);
  CHECK(all.grants_checked >= n_mine / 10);
  CHECK(all.regrowths >= n_mine / 4);
  CHECK(all.answers >= n_mine);
}

#define EBB_SHARE(number)                                                                                                            \
  TEST_CASE("share " #number " of the seeds: every promise holds, whatever fails, whoever takes memory, in any order of messages", \
            "[simulation]") {                                                                                                       \
    run_share(number);                                                                                                               \
  }
EBB_SHARE(0)
EBB_SHARE(1)
EBB_SHARE(2)
EBB_SHARE(3)
EBB_SHARE(4)
EBB_SHARE(5)
EBB_SHARE(6)
EBB_SHARE(7)
#undef EBB_SHARE

TEST_CASE("the same seed gives the same messages in the same order, and another seed others") {
  std::set<std::uint64_t> traces;
  for (std::uint32_t seed = 100'000; seed < 100'020; ++seed) {
    simulation once(seed), again(seed);
    once.run();
    again.run();
    CHECK(once.trace_hash() == again.trace_hash());
    CHECK(once.counts.messages == again.counts.messages);
    traces.insert(once.trace_hash());
  }
  CHECK(traces.size() == 20);
}

}  // namespace
}  // namespace ebb::sim

// tests/gpu/engine/lending_cycle.hpp: the caches of some cards lent and taken back while an answer streams, and what the client feels of it.
#pragma once
#include "tests/gpu/engine/figures.hpp"
#include "tests/gpu/engine/steady_talk.hpp"

namespace ebb::tools::test {

struct phase {
  time_point began, ended;
};

template <class Act>
phase during(Act act) {
  phase one{now(), {}};
  act();
  one.ended = now();
  return one;
}

struct cycle {
  phase before, going, small, coming, after;
  double moved_mib = 0;
  double lent_ms = 0, back_ms = 0;  // by the engine's own clock; of the slowest card
};

// Of each card up to so much, and every card at once.
cycle lend_and_take_back(served& with, steady_talk& talk, const std::vector<std::uint32_t>& devices, double wanted_mib);

// Pre: the talk has ended.
void print_cycles(const steady_talk& talk, const std::vector<cycle>& cycles);

// One cycle to warm up, then so many. The hash of the undisturbed answer.
std::string measure_lending(served& with, const std::vector<std::uint32_t>& devices, double wanted_mib, std::uint32_t repeats, const std::string& what);

}  // namespace ebb::tools::test

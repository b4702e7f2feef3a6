#include "kernels/cuda/bounded_wait.hpp"
#include <catch2/catch.hpp>

using namespace ebb;
using namespace std::chrono_literals;
using kernels::cuda::wait_while;

namespace {

enum class state { busy, done, failed };
using clock = std::chrono::steady_clock;

}  // namespace

TEST_CASE("a wait ends with the first answer that is another than busy, good or bad") {
  for (const state end : {state::done, state::failed}) {
    int asked = 0;
    CHECK(wait_while(state::busy, [&] { return ++asked < 5 ? state::busy : end; }, 10s) == end);
    CHECK(asked == 5);
  }
}

TEST_CASE("a wait for what never ends says busy when its time is over, and has slept most of it") {
  int asked = 0;
  const auto began = clock::now();
  CHECK(wait_while(state::busy, [&] { return ++asked, state::busy; }, 100ms) == state::busy);
  CHECK(clock::now() - began >= 100ms);
  CHECK(clock::now() - began < 10s);
  int naps = 0;
  const auto spun_until = clock::now() + limits::gpu_spin;
  wait_while(state::busy, [&] { return naps += clock::now() > spun_until ? 1 : 0, state::busy; }, 100ms);
  CHECK(naps <= 100ms / limits::gpu_nap + 1);
}

TEST_CASE("a wait asks once even where no time is given to it") {
  CHECK(wait_while(state::busy, [] { return state::done; }, 0s) == state::done);
  CHECK(wait_while(state::busy, [] { return state::busy; }, 0s) == state::busy);
}

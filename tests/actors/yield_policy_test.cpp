// The policy against neighbours: a device of so many MiB, caches in segments of 64 MiB, a reading every limits::watch_interval.
#include "actors/yield_policy.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <vector>

namespace ebb::actors {
namespace {

using namespace std::chrono_literals;

constexpr double total_mib = 18'500, full_mib = 16'000, mark_mib = 1'000;

// A cache that follows its policy, as the ledger and a card do: never into the mark, whole segments only.
struct watched_cache {
  yield_policy policy;
  double mib = full_mib;
  int direction = 0, turns = 0, orders = 0;

  void read(time_point now, double free_mib) {
    const auto order = policy.take({now, free_mib, mib, full_mib, mark_mib});
    if (!order) return;
    ++orders;
    const double ceiling = std::min(order->ceiling_mib.value_or(full_mib), mib + free_mib - mark_mib);
    const double next = std::floor(std::clamp(ceiling, 0.0, full_mib) / 64) * 64;
    if (next == mib) return;
    const int way = next > mib ? 1 : -1;
    turns += way != direction;
    direction = way;
    mib = next;
  }
};

// What a neighbour holds, from the time since the start, what it holds now and what is free.
using neighbour = std::function<double(double at_s, double held_mib, double free_mib)>;

class device {
 public:
  explicit device(neighbour other, std::size_t n_caches = 1) : caches(n_caches), other_(std::move(other)) {}

  double free_mib() const {
    double left = total_mib - held_mib;
    for (const watched_cache& each : caches) left -= each.mib;
    return left;
  }

  void run(std::chrono::seconds time) {
    for (const time_point end = now_ + time; now_ < end; now_ += limits::watch_interval) {
      const double at_s = std::chrono::duration<double>(now_.time_since_epoch()).count();
      held_mib = std::clamp(other_(at_s, held_mib, free_mib()), 0.0, held_mib + std::max(0.0, free_mib()));
      const double free = free_mib();
      for (watched_cache& each : caches) each.read(now_, free);
    }
  }

  std::vector<watched_cache> caches;
  double held_mib = 0;

 private:
  neighbour other_;
  time_point now_{};
};

TEST_CASE("a neighbour that takes 2 GiB gets them in two readings, and the cache is back seconds after it lets go") {
  device card([](double at_s, double, double) { return at_s >= 10 && at_s < 100 ? 2048.0 : 0.0; });
  watched_cache& cache = card.caches.front();
  card.run(10s);
  CHECK(cache.orders == 0);
  card.run(1s);
  CHECK(card.free_mib() >= mark_mib);
  CHECK(cache.mib >= full_mib - 2048);
  CHECK(cache.policy.gives_way());
  card.run(80s);
  CHECK(cache.turns == 1);
  card.run(30s);
  CHECK(cache.mib == full_mib);
  CHECK_FALSE(cache.policy.gives_way());
  CHECK(cache.turns == 2);
}

TEST_CASE("a buffer that comes and goes between two readings moves nothing, nor does free memory between the mark and its margin") {
  int reading = 0;
  device blinking([&](double, double, double) { return ++reading % 2 == 0 ? 2400.0 : 0.0; });
  blinking.run(600s);
  CHECK(blinking.caches.front().orders == 0);

  device close([](double at_s, double, double) { return at_s < 10 ? 2000.0 : 1700.0; });
  close.run(600s);
  CHECK(close.caches.front().turns == 1);
}

TEST_CASE("much that is missing is given a step at a time") {
  yield_policy policy;
  time_point now{};
  std::optional<yield_order> order;
  for (unsigned reading = 0; reading < limits::yield_readings; ++reading) {
    CHECK_FALSE(order);
    order = policy.take({now += limits::watch_interval, 0, full_mib, full_mib, 9'000});
  }
  REQUIRE(order);
  CHECK(order->ceiling_mib == full_mib - limits::yield_step_mib);
}

TEST_CASE("a neighbour that takes and lets go in turn is followed a few times, and then only when it stays away") {
  const double period_s = GENERATE(12.0, 20.0, 60.0);
  CAPTURE(period_s);
  device card([=](double at_s, double, double) { return at_s < 3600 && std::fmod(at_s, period_s) < period_s / 2 ? 2048.0 : 0.0; });
  watched_cache& cache = card.caches.front();
  card.run(1800s);
  CHECK(cache.turns <= 10);
  const int turns_of_first_half_hour = cache.turns;
  card.run(1800s);
  CHECK(cache.turns - turns_of_first_half_hour <= 1);
  card.run(limits::yield_calm_max + 60s);
  CHECK(cache.mib == full_mib);
}

TEST_CASE("to a neighbour that takes whatever is free the cache gives all, once, and gets it back when that has ended") {
  device card([](double at_s, double held, double free) { return at_s < 600 ? held + std::max(0.0, free - 200) : 0.0; });
  watched_cache& cache = card.caches.front();
  card.run(600s);
  CHECK(cache.mib == 0);
  CHECK(cache.turns == 1);
  card.run(120s);
  CHECK(cache.mib == full_mib);
  CHECK(cache.turns == 2);
}

TEST_CASE("a neighbour that measures the free memory anew each minute, and takes it, is followed ever more rarely") {
  device card([](double at_s, double held, double free) { return std::fmod(at_s, 60) < 15 ? 0.0 : held + std::max(0.0, free - 200); });
  watched_cache& cache = card.caches.front();
  card.run(1800s);
  CHECK(cache.turns <= 10);
  const int turns_of_first_half_hour = cache.turns;
  card.run(1800s);
  CHECK(cache.turns - turns_of_first_half_hour <= 1);
}

TEST_CASE("two caches that both give way to a third program settle with each other when that has ended, and leave the mark free") {
  device card([](double at_s, double, double) { return at_s < 60 ? 6000.0 : 0.0; }, 2);
  card.caches[0].mib = 10'000;
  card.caches[1].mib = 6'000;
  const auto turns = [&] { return card.caches[0].turns + card.caches[1].turns; };
  card.run(1800s);
  const int turns_so_far = turns();
  CHECK(turns_so_far <= 20);
  card.run(1800s);
  CHECK(turns() == turns_so_far);
  CHECK(card.free_mib() >= mark_mib);
  CHECK(card.free_mib() < mark_mib + limits::yield_margin_mib);
}

TEST_CASE("who was pushed down long after it had grown waits no longer than at first") {
  device card([](double at_s, double, double) { return std::fmod(at_s, 600) >= 590 ? 2048.0 : 0.0; });
  card.run(3600s);
  CHECK(card.caches.front().policy.calm() == limits::yield_calm_min);
  CHECK(card.caches.front().turns >= 10);
}

}  // namespace
}  // namespace ebb::actors

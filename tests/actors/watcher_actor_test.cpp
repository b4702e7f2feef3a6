// The watcher with the ledger and real cards, and a free figure that the test writes.
#include "actors/watcher_actor.hpp"
#include "config/limits.hpp"
#include "support/cast.hpp"

namespace ebb::actors {
namespace {

using test::cast;

constexpr std::uint64_t mib = 1u << 20;
constexpr std::uint32_t mark_mib = 1000;

class watched {
 public:
  // All cards lie in one memory, but where `memories` says otherwise.
  explicit watched(std::vector<std::uint32_t> first_layers = {0}, std::uint32_t min_free_mib = mark_mib, std::vector<std::optional<double>> ceilings_mib = {},
                   std::vector<std::uint32_t> memories = {})
      : actors({.first_layers = std::move(first_layers)}) {
    watcher_options options{.now = actors.clock(),
                            .free_bytes = [this](card_id) -> result<std::uint64_t> {
                              ++readings;
                              if (free_mib < 0) return fail(errc::file_unreadable, "no figure");
                              return static_cast<std::uint64_t>(free_mib * mib);
                            },
                            .min_free_mib = min_free_mib,
                            .ceilings_mib = std::move(ceilings_mib),
                            .memories = memories.empty() ? std::vector<std::uint32_t>(actors.cards.size(), 0) : std::move(memories),
                            .tell = [this](bus::event_body what) { actors.events.push_back(std::move(what)); }};
    watcher = actors.system().spawn(watcher_behavior, actors.cards, actors.ledger, std::move(options));
    actors.run();
  }
  ~watched() {
    actors.end(watcher);
    actors.run();
  }

  void pass(std::chrono::nanoseconds time) {
    for (; time.count() > 0; time -= limits::watch_interval) actors.pass(limits::watch_interval);
  }

  bus::card_report card(std::size_t number = 0) { return actors.ask<bus::card_info>(actors.cards[number], info_atom::value)->report; }

  template <class Event>
  std::vector<Event> events() const {
    std::vector<Event> all;
    for (const auto& each : actors.events) {
      if (const auto* of_kind = std::get_if<Event>(&each)) all.push_back(*of_kind);
    }
    return all;
  }

  cast actors;
  double free_mib = 10'000;
  int readings = 0;
  watcher_actor watcher;
};

TEST_CASE("a cache gives way when another program takes memory, tells so, and comes back when that is over") {
  watched here;
  const double full = here.card().expert_cache_mib;
  here.pass(std::chrono::seconds(10));
  CHECK(here.readings == 40);
  CHECK(here.events<bus::pressure>().empty());

  here.free_mib = mark_mib - 5;
  here.pass(limits::watch_interval);
  CHECK(here.card().expert_cache_mib == full);  // one reading is none
  here.pass(limits::watch_interval);
  here.free_mib = mark_mib;
  CHECK(here.card().expert_cache_mib <= full - 5);
  CHECK(here.card().expert_cache_mib > full - 6);
  REQUIRE(here.events<bus::pressure>().size() == 1);
  CHECK(here.events<bus::pressure>()[0].begins);
  CHECK(here.events<bus::pressure>()[0].free_mib == mark_mib - 5);
  CHECK(here.events<bus::pressure>()[0].wanted_mib == mark_mib);
  REQUIRE_FALSE(here.events<bus::resized>().empty());
  CHECK(here.events<bus::resized>().back().cause == "pressure");

  here.free_mib = 10'000;
  here.pass(limits::yield_calm_min + 2 * limits::watch_interval);
  CHECK(here.card().expert_cache_mib == full);
  REQUIRE(here.events<bus::pressure>().size() == 2);
  CHECK_FALSE(here.events<bus::pressure>()[1].begins);
}

TEST_CASE("a cache that gives way stays down for a vram command too, until the pressure is over") {
  watched here;
  const double full = here.card().expert_cache_mib;
  here.free_mib = mark_mib - 10;
  here.pass(2 * limits::watch_interval);
  here.free_mib = mark_mib;
  const auto report = here.actors.ask<bus::vram_report>(here.actors.ledger, vram_atom::value, bus::vram{std::nullopt, std::nullopt});
  REQUIRE(report);
  CHECK(report->cards[0].expert_cache_mib <= full - 10);
}

TEST_CASE("cards in the same memory give together what is missing, not each of them all of it") {
  watched here({0, 3});
  const double full = here.card(0).expert_cache_mib + here.card(1).expert_cache_mib;
  here.free_mib = mark_mib - 6;
  here.pass(2 * limits::watch_interval);
  here.free_mib = mark_mib;
  const double left = here.card(0).expert_cache_mib + here.card(1).expert_cache_mib;
  CHECK(left <= full - 6);
  CHECK(left > full - 7);
}

TEST_CASE("cards in memories of their own give each what is missing there") {
  watched here({0, 3}, mark_mib, {}, {4, 7});
  const double full = here.card(0).expert_cache_mib;
  here.free_mib = mark_mib - 6;
  here.pass(2 * limits::watch_interval);
  here.free_mib = mark_mib;
  for (const std::size_t number : {0u, 1u}) {
    CHECK(here.card(number).expert_cache_mib <= full - 6);
    CHECK(here.card(number).expert_cache_mib > full - 7);
  }
}

TEST_CASE("without a mark of its own the reserve in force is the mark, and without a figure nothing is decided") {
  watched here({0}, 0);
  here.free_mib = 299;
  here.pass(std::chrono::seconds(2));
  CHECK(here.events<bus::pressure>().empty());
  REQUIRE(here.actors.ask<bus::vram_report>(here.actors.ledger, vram_atom::value, bus::vram{300, 0}));
  here.free_mib = -1;
  here.pass(std::chrono::seconds(2));
  CHECK(here.events<bus::pressure>().empty());
  REQUIRE(here.actors.ask<bus::vram_report>(here.actors.ledger, vram_atom::value, bus::vram{0, 0}));
  here.free_mib = limits::yield_mark_mib_min - 3;  // below it also without a reserve, since free memory never falls below that
  here.pass(std::chrono::seconds(2));
  REQUIRE(here.events<bus::pressure>().size() == 1);
  CHECK(here.events<bus::pressure>()[0].wanted_mib == limits::yield_mark_mib_min);
}

TEST_CASE("a cache that gave way under an earlier watcher comes back under this one, though less is free than the margin of a large cache") {
  watched here({0}, mark_mib, {10.0});
  const double full = here.card().expert_cache_full_mib;
  here.actors.self()->send(here.actors.ledger, yield_atom::value, card_id{0}, 10.0);
  here.actors.run();
  CHECK(here.card().expert_cache_mib == 10);
  here.free_mib = mark_mib + full + 1;
  here.pass(4 * limits::yield_calm_min);
  CHECK(here.card().expert_cache_mib == full);
}

}  // namespace
}  // namespace ebb::actors

#include "actors/ledger_actor.hpp"
#include "support/cast.hpp"

namespace ebb::actors {
namespace {

using test::cast;

const test::cast_options two_cards{.first_layers = {0, 3}, .tick = std::chrono::milliseconds(5)};

result<bus::vram_report> vram(cast& actors, std::optional<std::uint32_t> reserve_mib, std::optional<std::uint32_t> device = {}) {
  return actors.ask<bus::vram_report>(actors.ledger, vram_atom::value, bus::vram{reserve_mib, device});
}

std::uint32_t reserve_of(cast& actors, std::size_t card) { return actors.ask<bus::card_info>(actors.cards[card], info_atom::value)->report.reserve_mib; }

TEST_CASE("a command for every card is answered with all of them, in the order of their numbers") {
  cast actors({.first_layers = {0, 2, 4}});
  actors.draw_jobs_from(5);
  const auto report = vram(actors, 4);
  REQUIRE(report);
  REQUIRE(report->cards.size() == 3);
  for (std::uint32_t device = 0; device < 3; ++device) {
    CHECK(report->cards[device].device == device);
    CHECK(report->cards[device].reserve_mib == 4);
    CHECK(report->cards[device].vram_free_mib >= 4);
  }
}

TEST_CASE("a command for one device leaves the others alone") {
  cast actors(two_cards);
  const auto report = vram(actors, 5, 1);
  REQUIRE(report);
  REQUIRE(report->cards.size() == 1);
  CHECK(report->cards[0].device == 1);
  CHECK(reserve_of(actors, 0) == 0);
  CHECK(reserve_of(actors, 1) == 5);
}

TEST_CASE("a command without a reserve brings back the start's") {
  cast actors(two_cards);
  REQUIRE(vram(actors, 5));
  const auto report = vram(actors, {});
  REQUIRE(report);
  for (const bus::card_report& card : report->cards) {
    CHECK(card.reserve_mib == 0);
    CHECK(card.expert_slots == card.expert_slots_full);
  }
}

TEST_CASE("an unknown device is refused by name and nothing changes") {
  cast actors(two_cards);
  const auto report = vram(actors, 5, 2);
  REQUIRE_FALSE(report);
  CHECK(report.error().code == errc::unknown_device);
  CHECK_THAT(report.error().text, Catch::Contains("devices are 0 to 1"));
  CHECK(reserve_of(actors, 0) == 0);
  CHECK(reserve_of(actors, 1) == 0);
}

TEST_CASE("commands that come at once are carried out one after the other, so none finds a card busy") {
  const auto seed = GENERATE(range(0u, 4u));
  CAPTURE(seed);
  cast actors(two_cards);
  actors.draw_jobs_from(seed);
  std::vector<std::uint32_t> reserves{9, 3, 12, 0, 7};
  using pending = decltype(actors.self()->request(actors.ledger, caf::infinite, vram_atom::value, bus::vram{}));
  std::vector<pending> all;
  for (const std::uint32_t reserve : reserves) all.push_back(actors.self()->request(actors.ledger, caf::infinite, vram_atom::value, bus::vram{reserve, {}}));
  auto wrong = actors.self()->request(actors.ledger, caf::infinite, vram_atom::value, bus::vram{1, 8});
  actors.run();
  for (std::size_t i = 0; i < reserves.size(); ++i) {
    const auto report = actors.receive<bus::vram_report>(std::move(all[i]));
    REQUIRE(report);
    REQUIRE(report->cards.size() == 2);
    for (const bus::card_report& card : report->cards) CHECK(card.reserve_mib == reserves[i]);
  }
  const auto refused = actors.receive<bus::vram_report>(std::move(wrong));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unknown_device);
  CHECK(reserve_of(actors, 0) == 7);
  CHECK(reserve_of(actors, 1) == 7);
}

TEST_CASE("a card that is gone is reported as lost, and the text says that the others hold what was asked") {
  cast actors(two_cards);
  actors.end(actors.cards[1]);
  actors.run();
  const auto alone = vram(actors, 5, 1);
  REQUIRE_FALSE(alone);
  CHECK(alone.error().code == errc::card_lost);
  CHECK(vram(actors, 5, 0));

  const auto both = vram(actors, 6);
  REQUIRE_FALSE(both);
  CHECK(both.error().code == errc::card_lost);
  CHECK_THAT(both.error().text, Catch::Contains("device 0 holds its new reserve"));
  CHECK(reserve_of(actors, 0) == 6);
}

TEST_CASE("a card that is lost in the middle of a command ends that command, and the next one is carried out") {
  cast actors(two_cards);
  auto first = actors.self()->request(actors.ledger, caf::infinite, vram_atom::value, bus::vram{9, 1});
  auto second = actors.self()->request(actors.ledger, caf::infinite, vram_atom::value, bus::vram{4, 0});
  for (int messages = 0; messages < 3; ++messages) actors.run_once();
  actors.end(actors.cards[1]);
  actors.run();
  const auto lost = actors.receive<bus::vram_report>(std::move(first));
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == errc::card_lost);
  const auto report = actors.receive<bus::vram_report>(std::move(second));
  REQUIRE(report);
  CHECK(report->cards.at(0).reserve_mib == 4);
}

TEST_CASE("what one card refuses is an error that names it") {
  cast actors({.first_layers = {0, 3}, .elastic = false});
  const auto report = vram(actors, 5);
  REQUIRE_FALSE(report);
  CHECK(report.error().code == errc::refused);
  CHECK_THAT(report.error().text, Catch::Contains("vram_elastic"));
}

}  // namespace
}  // namespace ebb::actors

#include "actors/card_actor.hpp"
#include "support/cast.hpp"

namespace ebb::actors {
namespace {

resize_goal reserve_of(std::uint32_t mib) { return {.reserve_mib = mib, .extra_mib = 0, .extra_min_mib = 0, .ceiling_mib = {}}; }

using test::cast;

constexpr std::string_view prompt = "In the beginning God created the";

template <class T>
void check_error(const result<T>& outcome, errc code, const std::string& named) {
  REQUIRE_FALSE(outcome);
  INFO(outcome.error().text);
  CHECK(to_string(outcome.error().code) == to_string(code));
  CHECK_THAT(outcome.error().text, Catch::Contains(named));
}

session_opening opening(std::uint64_t number, std::uint32_t n_tokens = 40) { return {{number}, 0, test::greedy_order(prompt, n_tokens)}; }

// The first window of a session, and the card's first token.
window first_window(std::uint64_t number) {
  window what{.number = 1, .tokens = test::greedy_order(prompt, 1)->prompt};
  for (std::uint32_t position = 0; position < what.tokens.size(); ++position) what.rows.push_back({0, position});
  what.sampled.push_back({static_cast<std::uint32_t>(what.tokens.size() - 1), {number}});
  return what;
}

window second_window(std::uint64_t number, token_id token, std::uint32_t repeat) {
  window what = first_window(number);
  const auto position = static_cast<std::uint32_t>(what.rows.size());
  return {.number = 2, .rows = {{0, position}}, .tokens = {token}, .sampled = {{0, {number}}}, .x = nullptr, .repeat = repeat};
}

// An open session whose first token is known.
token_id begin_session(cast& actors, std::uint64_t number, std::uint32_t n_tokens = 40) {
  auto opened = actors.self()->request(actors.cards[0], caf::infinite, open_atom::value, opening(number, n_tokens));
  actors.run();
  bool done = false;
  opened.receive([&] { done = true; }, [](const caf::error&) {});
  REQUIRE(done);
  const auto ran = actors.ask<window_result>(actors.cards[0], run_atom::value, first_window(number));
  REQUIRE(ran);
  REQUIRE(ran->picked.size() == 1);
  return ran->picked[0].token;
}

// The windows that a repeating card has told of.
std::vector<window_result> take_told(cast& actors) {
  std::vector<window_result> told;
  bool more = true;
  actors.self()->receive_while(more)([&](ran_atom, const window_result& ran) { told.push_back(ran); },
                                     caf::after(std::chrono::seconds(0)) >> [&] { more = false; });
  return told;
}

TEST_CASE("before it is loaded a card says that it is not, and takes what needs no answer in silence") {
  cast actors({.load = false});
  const card_actor card = actors.cards[0];
  check_error(actors.ask<bus::card_info>(card, info_atom::value), errc::not_loaded, "device");
  check_error(actors.ask<window_result>(card, run_atom::value, first_window(1)), errc::not_loaded, "device");
  check_error(actors.ask<resize_outcome>(card, resize_atom::value, reserve_of(5)), errc::not_loaded, "device");
  check_error(actors.ask<picked_token>(card, cancel_atom::value, session_id{1}), errc::not_loaded, "device");
  actors.self()->send(card, close_atom::value, session_id{1}, std::uint32_t{0});
  actors.self()->send(card, adopt_atom::value, std::uint64_t{1});
  actors.self()->send(card, halt_atom::value);
  actors.self()->send(card, step_atom::value);
  actors.self()->send(card, next_atom::value);
  actors.run();
  CHECK(actors.ask<bus::card_info>(card, load_atom::value));
}

TEST_CASE("a card that cannot be made answers the load with why") {
  cast actors;
  const card_factory broken = []() -> result<std::unique_ptr<card>> { return fail(errc::out_of_memory, "no room for the cache"); };
  const card_actor card = actors.system().spawn(card_behavior, broken, actors.residency);
  check_error(actors.ask<bus::card_info>(card, load_atom::value), errc::out_of_memory, "no room for the cache");
  actors.end(card);
  actors.run();
}

TEST_CASE("a card that was loaded is resident, and gets its fast path from the residency actor; a shrink takes it, a growth brings it back") {
  cast actors({.tick = std::chrono::milliseconds(5)});
  const auto info = [&] { return *actors.ask<bus::card_info>(actors.cards[0], info_atom::value); };
  CHECK(info().resident);
  CHECK(info().fast_path);
  CHECK(info().kind == "host");
  CHECK(actors.ask<resize_outcome>(actors.cards[0], resize_atom::value, reserve_of(5))->report.reserve_mib == 5);
  CHECK_FALSE(info().resident);
  CHECK_FALSE(info().fast_path);
  CHECK(actors.ask<resize_outcome>(actors.cards[0], resize_atom::value, reserve_of(0))->report.short_mib == 0);
  CHECK(info().resident);
  CHECK(info().fast_path);
}

TEST_CASE("a card that repeats tells of every window but the last, which is its answer") {
  cast actors;
  const token_id first = begin_session(actors, 1);
  const auto last = actors.ask<window_result>(actors.cards[0], run_atom::value, second_window(1, first, 5));
  REQUIRE(last);
  auto told = take_told(actors);
  REQUIRE(told.size() == 5);
  told.push_back(*last);
  const auto& expected = test::expected_answer(prompt, 40);
  for (std::size_t i = 0; i < told.size(); ++i) {
    REQUIRE(told[i].picked.size() == 1);
    CHECK(told[i].picked[0].token == expected.tokens[i + 1]);
    CHECK(told[i].number == 2);
  }
}

TEST_CASE("a repeating card stops by itself at the end of an answer") {
  cast actors;
  const token_id first = begin_session(actors, 1, 4);
  const auto last = actors.ask<window_result>(actors.cards[0], run_atom::value, second_window(1, first, 64));
  REQUIRE(last);
  CHECK(take_told(actors).size() == 2);
  REQUIRE(last->picked.size() == 1);
  CHECK(last->picked[0].finish == model::finish::length);
  CHECK(last->picked[0].logits_hash == test::expected_answer(prompt, 4).logits_hash);
}

TEST_CASE("a halt ends a run before its next window, with an empty answer") {
  cast actors;
  const token_id first = begin_session(actors, 1);
  auto pending = actors.self()->request(actors.cards[0], caf::infinite, run_atom::value, second_window(1, first, 64));
  for (int messages = 0; messages < 3; ++messages) actors.run_once();
  actors.self()->send(actors.cards[0], halt_atom::value);
  actors.run();
  const auto last = actors.receive<window_result>(std::move(pending));
  REQUIRE(last);
  CHECK(last->picked.empty());
  CHECK(last->hits.empty());
  const auto told = take_told(actors);
  CHECK(told.size() == 4);  // the halt came behind a window that was due already
}

TEST_CASE("a halt without a run does not stop the next one") {
  cast actors;
  const token_id first = begin_session(actors, 1);
  actors.self()->send(actors.cards[0], halt_atom::value);
  REQUIRE(actors.ask<window_result>(actors.cards[0], run_atom::value, second_window(1, first, 3)));
  CHECK(take_told(actors).size() == 3);
}

TEST_CASE("a resize in steps lets the windows of a run through, and both give what they would alone") {
  cast actors({.tick = std::chrono::milliseconds(5)});
  const token_id first = begin_session(actors, 1);
  auto run = actors.self()->request(actors.cards[0], caf::infinite, run_atom::value, second_window(1, first, 38));
  auto resize = actors.self()->request(actors.cards[0], caf::infinite, resize_atom::value, reserve_of(24));
  int with_all = 0;
  actors.run();
  const auto report = actors.receive<resize_outcome>(std::move(resize));
  const auto last = actors.receive<window_result>(std::move(run));
  REQUIRE(report);
  CHECK(report->report.expert_slots == 0);
  REQUIRE(last);
  CHECK(last->picked[0].logits_hash == test::expected_answer(prompt, 40).logits_hash);
  const auto told = take_told(actors);
  CHECK(told.size() == 38);
  // The first windows had every expert in a slot, the last had none: the shrink took place in between.
  for (const window_result& ran : told) with_all += ran.hits[0] == ran.picks_per_row;
  CHECK(with_all > 0);
  CHECK(with_all < 38);
  CHECK(last->hits[0] == 0);
}

TEST_CASE("a resize while another is under way is refused, and the first is carried out") {
  cast actors({.tick = std::chrono::milliseconds(5)});
  auto first = actors.self()->request(actors.cards[0], caf::infinite, resize_atom::value, reserve_of(24));
  auto second = actors.self()->request(actors.cards[0], caf::infinite, resize_atom::value, reserve_of(3));
  actors.run();
  check_error(actors.receive<resize_outcome>(std::move(second)), errc::busy, "card 0");
  const auto report = actors.receive<resize_outcome>(std::move(first));
  REQUIRE(report);
  CHECK(report->report.reserve_mib == 24);
}

TEST_CASE("a card that is not elastic refuses a resize by the name of the setting") {
  cast actors({.elastic = false});
  check_error(actors.ask<resize_outcome>(actors.cards[0], resize_atom::value, reserve_of(5)), errc::refused, "vram_elastic");
}

TEST_CASE("a session that has ended cannot be cancelled") {
  cast actors;
  begin_session(actors, 1);
  actors.self()->send(actors.cards[0], close_atom::value, session_id{1}, std::uint32_t{0});
  check_error(actors.ask<picked_token>(actors.cards[0], cancel_atom::value, session_id{1}), errc::unknown_session, "ended");
}

TEST_CASE("a window that the card refuses ends the run with the error, and the next one runs") {
  cast actors;
  check_error(actors.ask<window_result>(actors.cards[0], run_atom::value, first_window(99)), errc::unknown_session, "99");
  begin_session(actors, 1);
}

TEST_CASE("a card that ends in the middle of a run tells so to whoever waits for it") {
  cast actors;
  const token_id first = begin_session(actors, 1);
  auto pending = actors.self()->request(actors.cards[0], caf::infinite, run_atom::value, second_window(1, first, 64));
  for (int messages = 0; messages < 3; ++messages) actors.run_once();
  actors.end(actors.cards[0]);
  actors.run();
  check_error(actors.receive<window_result>(std::move(pending)), errc::card_lost, "card");
}

TEST_CASE("a card that ends in the middle of a resize or of its load tells so to whoever waits for it") {
  cast actors({.load = false, .tick = std::chrono::milliseconds(5)});
  auto loading = actors.self()->request(actors.cards[0], caf::infinite, load_atom::value);
  for (int messages = 0; messages < 3; ++messages) actors.run_once();
  actors.end(actors.cards[0]);
  actors.run();
  check_error(actors.receive<bus::card_info>(std::move(loading)), errc::card_lost, "card");

  cast others({.tick = std::chrono::milliseconds(5)});
  auto resizing = others.self()->request(others.cards[0], caf::infinite, resize_atom::value, reserve_of(24));
  for (int messages = 0; messages < 2; ++messages) others.run_once();
  others.end(others.cards[0]);
  others.run();
  check_error(others.receive<resize_outcome>(std::move(resizing)), errc::card_lost, "card");
  check_error(others.ask<bus::card_info>(others.cards[0], info_atom::value), errc::card_lost, "ended");
}

}  // namespace
}  // namespace ebb::actors

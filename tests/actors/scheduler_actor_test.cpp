#include "actors/scheduler_actor.hpp"
#include "support/cast.hpp"
#include <set>

namespace ebb::actors {
namespace {

using test::cast;

constexpr std::string_view prompt = "Call me Ishmael. Some years ago";

// What a listener is told, in order.
struct heard {
  std::vector<session_token> tokens;
  std::vector<session_end> ends;

  std::vector<token_id> tokens_of(session_id session) const {
    std::vector<token_id> all;
    for (const session_token& each : tokens) {
      if (each.session == session) all.push_back(each.token);
    }
    return all;
  }
  const session_end* end_of(session_id session) const {
    for (const session_end& each : ends) {
      if (each.session == session) return &each;
    }
    return nullptr;
  }
};

session_listener::behavior_type listen(session_listener::pointer, heard* into) {
  return {
      [into](token_atom, const session_token& token) {
        CHECK_FALSE(into->end_of(token.session));  // nothing comes after the end
        into->tokens.push_back(token);
      },
      [into](end_atom, const session_end& last) {
        CHECK_FALSE(into->end_of(last.session));
        into->ends.push_back(last);
      },
  };
}

class stage_play {
 public:
  explicit stage_play(const test::cast_options& options = {}) : actors(options), ear_(actors.system().spawn(listen, &told)) {}
  ~stage_play() { actors.end(ear_); }

  void submit(std::uint64_t number, std::uint32_t n_tokens = 20) {
    actors.self()->send(actors.scheduler, submit_atom::value, ear_, session_id{number}, test::greedy_order(prompt, n_tokens));
  }
  void cancel(std::uint64_t number) { actors.self()->send(actors.scheduler, cancel_atom::value, session_id{number}); }
  scheduler_state state() { return *actors.ask<scheduler_state>(actors.scheduler, info_atom::value); }
  void run_until_tokens(std::size_t count, std::uint64_t number = 1) {
    actors.run_until([&] { return told.tokens_of({number}).size() >= count; });
  }
  void check_whole(std::uint64_t number, std::uint32_t n_tokens = 20) const {
    const auto& expected = test::expected_answer(prompt, n_tokens);
    const session_end* last = told.end_of({number});
    REQUIRE(last);
    CHECK(last->failure == errc::none);
    CHECK(last->summary.finish == "length");
    CHECK(last->summary.generated_tokens == n_tokens);
    CHECK(last->summary.hash == expected.logits_hash);
    CHECK(told.tokens_of({number}) == expected.tokens);
  }
  void check_failed(std::uint64_t number, errc code) const {
    const session_end* last = told.end_of({number});
    REQUIRE(last);
    CHECK(to_string(last->failure) == to_string(code));
    CHECK(!last->failure_text.empty());
  }

  heard told;
  cast actors;

 private:
  session_listener ear_;
};

TEST_CASE("an answer is its tokens in order and then its end, on one card, two and three, repeating or not") {
  const auto first_layers = GENERATE(std::vector<std::uint32_t>{0}, std::vector<std::uint32_t>{0, 3}, std::vector<std::uint32_t>{0, 1, 4});
  const auto repeat_max = GENERATE(0u, 8u);
  const auto windows_max = GENERATE(1u, 3u);
  stage_play play({.first_layers = first_layers, .repeat_max = repeat_max, .windows_max = windows_max});
  play.submit(1);
  play.actors.run();
  play.check_whole(1);
  for (std::size_t i = 0; i < play.told.tokens.size(); ++i) CHECK(play.told.tokens[i].index == i);
  CHECK(play.told.end_of({1})->summary.hit_rate == 1);
  CHECK(play.state().sessions == 0);
  CHECK(play.state().tokens_generated == 20);
}

TEST_CASE("more sessions than places are all answered, in any order of messages, and no answer depends on its neighbours") {
  const auto seed = GENERATE(range(0u, 8u));
  CAPTURE(seed);
  stage_play play({.first_layers = seed % 2 ? std::vector<std::uint32_t>{0, 3} : std::vector<std::uint32_t>{0}, .places = 2 + seed / 6, .windows_max = 1 + seed / 4});
  play.actors.draw_jobs_from(seed);
  for (std::uint64_t number = 1; number <= 5; ++number) {
    play.submit(number, static_cast<std::uint32_t>(number % 2 ? 20 : 7));
    for (unsigned messages = 0; messages < 3 * seed; ++messages) play.actors.run_once();
  }
  play.actors.run();
  for (std::uint64_t number = 1; number <= 5; ++number) play.check_whole(number, static_cast<std::uint32_t>(number % 2 ? 20 : 7));
}

TEST_CASE("the state counts who runs and who waits") {
  stage_play play({.places = 2, .repeat_max = 0});
  for (std::uint64_t number : {1, 2, 3}) play.submit(number);
  play.run_until_tokens(3);
  auto pending = play.actors.self()->request(play.actors.scheduler, caf::infinite, info_atom::value);
  play.run_until_tokens(6);
  const auto now = play.actors.receive<scheduler_state>(std::move(pending));
  REQUIRE(now);
  CHECK(now->sessions == 2);
  CHECK(now->sessions_max == 2);
  CHECK(now->waiting == 1);
  CHECK(now->windows >= 3);
  play.actors.run();
  CHECK(play.state().sessions == 0);
  CHECK(play.state().waiting == 0);
}

TEST_CASE("a session that joins a card that repeats windows has its first token long before the run would have ended") {
  stage_play play({.repeat_max = 64});
  play.submit(1, 60);
  play.run_until_tokens(5);
  play.submit(2);
  play.run_until_tokens(1, 2);
  CHECK(play.told.tokens_of({1}).size() < 12);
  play.actors.run();
  play.check_whole(1, 60);
  play.check_whole(2);
}

TEST_CASE("a session that waits takes the place of a cancelled one at once, though the others repeat windows") {
  stage_play play({.places = 2, .repeat_max = 64});
  play.submit(1, 60);
  play.submit(2, 60);
  play.submit(3);
  play.run_until_tokens(5);
  play.cancel(2);
  play.run_until_tokens(1, 3);
  CHECK(play.told.tokens_of({1}).size() < 14);
  play.actors.run();
  play.check_whole(1, 60);
  play.check_whole(3);
}

TEST_CASE("a running session that is cancelled ends with what it has, and the others go on") {
  const auto repeat_max = GENERATE(0u, 64u);
  const auto first_layers = GENERATE(std::vector<std::uint32_t>{0}, std::vector<std::uint32_t>{0, 3});
  const auto windows_max = GENERATE(1u, 2u);
  stage_play play({.first_layers = first_layers, .repeat_max = repeat_max, .windows_max = windows_max});
  play.submit(1);
  play.submit(2);
  play.run_until_tokens(6);
  play.cancel(1);
  play.cancel(1);
  play.actors.run();
  const session_end* last = play.told.end_of({1});
  REQUIRE(last);
  CHECK(last->failure == errc::none);
  CHECK(last->summary.finish == "cancelled");
  const auto tokens = play.told.tokens_of({1});
  CHECK(tokens.size() >= 6);
  CHECK(tokens.size() < 20);  // before its end
  CHECK(last->summary.generated_tokens == tokens.size());
  CHECK(last->summary.hash == test::expected_answer(prompt, static_cast<std::uint32_t>(tokens.size())).logits_hash);
  play.check_whole(2);
}

TEST_CASE("a session that still reads its prompt can be cancelled") {
  stage_play play;
  play.submit(1);
  play.actors.run_once();
  play.cancel(1);
  play.actors.run();
  REQUIRE(play.told.end_of({1}));
  CHECK(play.told.end_of({1})->summary.finish == "cancelled");
  CHECK(play.state().sessions == 0);
}

TEST_CASE("a waiting session that is cancelled ends without a token") {
  stage_play play({.places = 1});
  play.submit(1);
  play.submit(2);
  play.run_until_tokens(2);
  play.cancel(2);
  play.actors.run();
  REQUIRE(play.told.end_of({2}));
  CHECK(play.told.end_of({2})->summary.finish == "cancelled");
  CHECK(play.told.tokens_of({2}).empty());
  play.check_whole(1);
}

TEST_CASE("cancelling a session that has ended, or never was, does nothing") {
  stage_play play;
  play.submit(1, 3);
  play.actors.run();
  play.cancel(1);
  play.cancel(99);
  play.actors.run();
  play.check_whole(1, 3);
  CHECK(play.told.ends.size() == 1);
}

TEST_CASE("text that was held back for a stop string comes before the end of a cancelled answer") {
  stage_play play({.repeat_max = 0});
  auto order = std::make_shared<session_order>(*test::greedy_order(prompt, 20));
  const auto first = test::expected_answer(prompt, 20).tokens[0];
  const std::string text(test::demo().vocabulary->bytes_of(first));
  order->params.stops = {text + " and what never comes"};
  const session_listener ear = play.actors.system().spawn(listen, &play.told);
  play.actors.self()->send(play.actors.scheduler, submit_atom::value, ear, session_id{1}, std::shared_ptr<const session_order>(order));
  play.run_until_tokens(1);
  CHECK(play.told.tokens[0].text.empty());
  play.cancel(1);
  play.actors.run();
  std::string whole;
  for (const session_token& each : play.told.tokens) whole += each.text;
  std::string expected;
  const std::uint64_t n_tokens = play.told.end_of({1})->summary.generated_tokens;
  for (std::uint64_t i = 0; i < n_tokens; ++i) expected += test::demo().vocabulary->bytes_of(test::expected_answer(prompt, 20).tokens[i]);
  CHECK(whole == expected);
  if (n_tokens == 1) CHECK(play.told.tokens.back().index == session_token::held_back);
  play.actors.end(ear);
}

TEST_CASE("a card that dies fails the sessions that run and those that wait, once each, and refuses those that come") {
  const auto repeat_max = GENERATE(0u, 64u);
  const auto dies = GENERATE(0u, 1u);
  const auto first_layers = repeat_max > 0 ? std::vector<std::uint32_t>{0} : std::vector<std::uint32_t>{0, 3};
  const auto windows_max = GENERATE(1u, 2u);
  CAPTURE(repeat_max, dies, windows_max);
  stage_play play({.first_layers = first_layers, .places = 2, .repeat_max = repeat_max, .windows_max = windows_max});
  for (std::uint64_t number : {1, 2, 3}) play.submit(number);
  play.run_until_tokens(4);
  play.actors.end(play.actors.cards[dies % first_layers.size()]);
  play.actors.run();
  for (std::uint64_t number : {1, 2, 3}) play.check_failed(number, errc::card_lost);
  CHECK(play.told.tokens_of({1}).size() < 20);
  play.submit(4);
  play.actors.run();
  play.check_failed(4, errc::card_lost);
  CHECK(play.told.ends.size() == 4);
  CHECK(play.state().sessions == 0);
  CHECK(play.state().waiting == 0);
}

TEST_CASE("a card that dies while nobody is served fails the next session") {
  stage_play play({.first_layers = {0, 3}});
  const auto dies = GENERATE(0u, 1u);
  play.actors.end(play.actors.cards[dies]);
  play.actors.run();
  play.submit(1);
  play.submit(2);
  play.actors.run();
  play.check_failed(1, errc::card_lost);
  play.check_failed(2, errc::card_lost);
  CHECK(play.told.ends.size() == 2);
}

TEST_CASE("a card that dies in the middle of a cancel still ends that session once") {
  stage_play play({.repeat_max = 0});
  play.submit(1);
  play.run_until_tokens(3);
  play.cancel(1);
  play.actors.run_only(play.actors.scheduler);
  play.actors.end(play.actors.cards[0]);
  play.actors.run();
  CHECK(play.told.ends.size() == 1);
  CHECK(play.state().sessions == 0);
}

TEST_CASE("stop ends every session with cancelled when the window under way has ended, and refuses those that come") {
  const auto repeat_max = GENERATE(0u, 64u);
  const auto windows_max = GENERATE(1u, 2u);
  const auto first_layers = windows_max > 1 ? std::vector<std::uint32_t>{0, 3} : std::vector<std::uint32_t>{0};
  stage_play play({.first_layers = first_layers, .places = 2, .repeat_max = repeat_max, .windows_max = windows_max});
  for (std::uint64_t number : {1, 2, 3}) play.submit(number, 60);
  play.run_until_tokens(4);
  const auto last = play.actors.ask<scheduler_state>(play.actors.scheduler, stop_atom::value);
  REQUIRE(last);
  CHECK(last->sessions == 0);
  CHECK(last->waiting == 0);
  for (std::uint64_t number : {1, 2, 3}) play.check_failed(number, errc::cancelled);
  CHECK(play.told.tokens_of({1}).size() < 12);
  play.submit(4);
  play.actors.run();
  play.check_failed(4, errc::cancelled);
  CHECK(play.told.ends.size() == 4);
}

TEST_CASE("stop with nothing to do is answered at once") {
  stage_play play;
  CHECK(play.actors.ask<scheduler_state>(play.actors.scheduler, stop_atom::value));
}

TEST_CASE("with several sessions both cards have a window to work on at the same time, and every answer is what it is alone") {
  const auto windows_max = GENERATE(1u, 2u);
  stage_play play({.first_layers = {0, 3}, .windows_max = windows_max});
  std::set<std::uint64_t> passed_first;  // windows that the first card has run
  play.actors.before_message = [&](caf::actor_id whose, const caf::type_erased_tuple& what) {
    const bool runs = what.size() == 2 && what.match_element<window>(1);
    if (runs && whose == play.actors.cards[0].id()) passed_first.insert(what.get_as<window>(1).number);
  };
  std::size_t both = 0, all = 0;
  play.actors.after_message = [&] {
    const auto& under_way = cast::state_of<scheduler_state_data>(play.actors.scheduler).under_way;
    const auto n_second = std::count_if(under_way.begin(), under_way.end(), [&](const auto& each) { return passed_first.contains(each.first); });
    ++all;
    both += n_second > 0 && static_cast<std::size_t>(n_second) < under_way.size();
  };
  for (std::uint64_t number = 1; number <= 4; ++number) play.submit(number);
  play.actors.run();
  CAPTURE(both, all);
  if (windows_max == 1) CHECK(both == 0);
  else CHECK(both > all / 4);  // the others are messages of sessions that join, and of tokens
  for (std::uint64_t number = 1; number <= 4; ++number) play.check_whole(number);
}

TEST_CASE("a session that is cancelled while it is in one of two windows ends when that has ended, and the others' answers are whole") {
  stage_play play({.first_layers = {0, 3}, .windows_max = 2});
  for (std::uint64_t number = 1; number <= 4; ++number) play.submit(number);
  play.run_until_tokens(3, 2);
  play.cancel(2);
  play.actors.run();
  CHECK(play.told.end_of({2})->summary.finish == "cancelled");
  CHECK(play.told.tokens_of({2}).size() < 20);
  for (const std::uint64_t number : {1, 3, 4}) play.check_whole(number);
}

}  // namespace
}  // namespace ebb::actors

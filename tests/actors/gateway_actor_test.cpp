#include "actors/gateway_actor.hpp"
#include "config/limits.hpp"
#include "support/cast.hpp"
#include <cmath>
#include <numeric>

namespace ebb::actors {
namespace {

using test::cast;
using test::said;

const bus::client_id ada{"ada"}, bob{"bob"};
const std::string beginning = "In the beginning God created the";
constexpr std::uint32_t n_tokens = 40;

bus::generate asking(const std::string& prompt, std::uint32_t max_tokens = n_tokens) {
  bus::generate asked;
  asked.prompt = prompt;
  asked.max_tokens = max_tokens;
  asked.temperature = 0.0F;
  asked.hash = true;
  asked.ignore_eos = true;
  return asked;
}

bus::request request(std::uint64_t id, bus::command command) { return {{id}, false, std::move(command)}; }
bus::vram reserve(std::uint32_t mib, std::optional<std::uint32_t> device = {}) { return {mib, device}; }

// The replies to one request, in order.
std::vector<bus::reply> replies_to(const cast& actors, const bus::client_id& client, std::uint64_t id) {
  std::vector<bus::reply> all;
  for (const said& each : actors.replies) {
    if (each.to == client && each.what.id == bus::request_id{id}) all.push_back(each.what);
  }
  return all;
}

template <class Body>
std::size_t count(const std::vector<bus::reply>& replies) {
  return static_cast<std::size_t>(std::count_if(replies.begin(), replies.end(), [](const auto& each) { return std::holds_alternative<Body>(each.body); }));
}

// The only last reply of a request, which is the last of all its replies.
template <class Body>
Body last_reply(const cast& actors, const bus::client_id& client, std::uint64_t id) {
  const auto replies = replies_to(actors, client, id);
  const auto lasts = std::count_if(replies.begin(), replies.end(), [](const auto& each) { return each.last(); });
  REQUIRE(lasts == 1);
  REQUIRE(replies.back().last());
  if (const auto* why = std::get_if<error>(&replies.back().body)) INFO(why->text);
  REQUIRE(std::holds_alternative<Body>(replies.back().body));
  return std::get<Body>(replies.back().body);
}

void check_error(const cast& actors, const bus::client_id& client, std::uint64_t id, errc code, const std::string& named) {
  const auto why = last_reply<error>(actors, client, id);
  INFO(why.text);
  CHECK(to_string(why.code) == to_string(code));
  CHECK_THAT(why.text, Catch::Contains(named));
}

std::string expected_hash(const std::string& prompt = beginning, std::uint32_t length = n_tokens) {
  return test::expected_answer(prompt, length).logits_hash;
}

void run_until_tokens(cast& actors, const bus::client_id& client, std::uint64_t id, std::size_t tokens) {
  actors.run_until([&] { return count<bus::token>(replies_to(actors, client, id)) >= tokens; });
}

TEST_CASE("an answer streams its tokens and then exactly one done, which carries no text") {
  const auto first_layers = GENERATE(std::vector<std::uint32_t>{0}, std::vector<std::uint32_t>{0, 2, 4});
  cast actors({.first_layers = first_layers});
  actors.send(ada, request(1, asking(beginning)));
  actors.run();
  const auto done = last_reply<bus::done>(actors, ada, 1);
  const auto replies = replies_to(actors, ada, 1);
  REQUIRE(replies.size() == n_tokens + 1);
  std::string text;
  for (std::size_t i = 0; i < n_tokens; ++i) {
    const auto& token = std::get<bus::token>(replies[i].body);
    CHECK(token.index == i);
    CHECK(token.id == test::expected_answer(beginning, n_tokens).tokens[i]);
    text += token.text;
  }
  CHECK(text == test::demo().vocabulary->decode(test::expected_answer(beginning, n_tokens).tokens));
  CHECK(done.text.empty());
  CHECK(done.finish == "length");
  CHECK(done.hash == expected_hash());
  CHECK(done.prompt_tokens == 7);
  CHECK(done.generated_tokens == n_tokens);
}

TEST_CASE("a client that does not stream gets one done with the whole text") {
  cast actors;
  bus::generate asked = asking(beginning);
  asked.stream = false;
  actors.send(ada, request(1, asked));
  actors.run();
  CHECK(actors.replies.size() == 1);
  CHECK(last_reply<bus::done>(actors, ada, 1).text == test::demo().vocabulary->decode(test::expected_answer(beginning, n_tokens).tokens));
}

TEST_CASE("vram commands in the middle of an answer are carried out between two windows, and not one bit of it changes") {
  const auto first_layers = GENERATE(std::vector<std::uint32_t>{0}, std::vector<std::uint32_t>{0, 3});
  cast actors({.first_layers = first_layers, .tick = std::chrono::milliseconds(5)});
  actors.send(ada, request(1, asking(beginning)));
  run_until_tokens(actors, ada, 1, 8);
  actors.send(bob, request(1, reserve(24)));
  run_until_tokens(actors, ada, 1, 30);
  actors.send(bob, request(2, reserve(0)));
  actors.run();
  for (const bus::card_report& card : last_reply<bus::vram_report>(actors, bob, 1).cards) CHECK(card.expert_slots == 0);
  for (const bus::card_report& card : last_reply<bus::vram_report>(actors, bob, 2).cards) CHECK(card.expert_slots == card.expert_slots_full);
  const auto reported = std::find_if(actors.replies.begin(), actors.replies.end(), [](const said& each) { return each.to == bob; });
  const auto tokens_before = std::count_if(actors.replies.begin(), reported, [](const said& each) { return each.to == ada; });
  CHECK(tokens_before >= 8);
  CHECK(tokens_before < n_tokens);  // in the middle of the answer
  const auto done = last_reply<bus::done>(actors, ada, 1);
  CHECK(done.hash == expected_hash());
  CHECK(done.hit_rate > 0);
  CHECK(done.hit_rate < 1);
}

TEST_CASE("answers are the same under random vram commands, in any order of messages") {
  const auto seed = GENERATE(range(0u, 4u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::vector<std::uint32_t> first_layers = seed % 2 ? std::vector<std::uint32_t>{0, 3} : std::vector<std::uint32_t>{0};
  cast actors({.first_layers = first_layers, .tick = std::chrono::milliseconds(4)});
  actors.draw_jobs_from(seed);
  actors.send(ada, request(1, asking(beginning)));
  actors.send(ada, request(2, asking("And it came to pass", 25)));
  std::uint64_t commands = 0;
  const auto still_open = [&] { return count<bus::done>(replies_to(actors, ada, 1)) + count<bus::done>(replies_to(actors, ada, 2)) < 2; };
  while (still_open()) {
    const auto device = static_cast<std::uint32_t>(random() % first_layers.size());
    actors.send(bob, request(++commands, reserve(random() % 26, device)));
    for (auto messages = 5 + random() % 40; messages > 0; --messages) actors.run_once();
    REQUIRE(commands < 1000);
  }
  actors.run();
  for (std::uint64_t id = 1; id <= commands; ++id) last_reply<bus::vram_report>(actors, bob, id);
  CHECK(commands > 5);
  CHECK(last_reply<bus::done>(actors, ada, 1).hash == expected_hash());
  CHECK(last_reply<bus::done>(actors, ada, 2).hash == expected_hash("And it came to pass", 25));
}

TEST_CASE("four sessions at once give the hashes that each gives alone") {
  const std::vector<std::string> prompts{beginning, "Call me Ishmael. Some years ago", "ABSURDITY, n. A statement", "Fellow-Citizens of the Senate"};
  cast actors;
  for (std::uint64_t id = 0; id < 4; ++id) actors.send(id % 2 ? ada : bob, request(id, asking(prompts[id], 20)));
  actors.run();
  for (std::uint64_t id = 0; id < 4; ++id) CHECK(last_reply<bus::done>(actors, id % 2 ? ada : bob, id).hash == expected_hash(prompts[id], 20));
}

TEST_CASE("cancel is answered, and the generate ends with its own done and what it has") {
  cast actors;
  actors.send(ada, request(1, asking(beginning)));
  run_until_tokens(actors, ada, 1, 10);
  actors.send(ada, request(2, bus::cancel{{std::uint64_t{1}}}));
  actors.run();
  last_reply<bus::cancelled>(actors, ada, 2);
  const auto done = last_reply<bus::done>(actors, ada, 1);
  CHECK(done.finish == "cancelled");
  CHECK(done.generated_tokens == count<bus::token>(replies_to(actors, ada, 1)));
  CHECK(done.generated_tokens < 20);
  CHECK(done.hash == expected_hash(beginning, static_cast<std::uint32_t>(done.generated_tokens)));
}

TEST_CASE("only a generate that is under way, of the same client, can be cancelled") {
  cast actors;
  actors.send(ada, request(1, asking(beginning)));
  run_until_tokens(actors, ada, 1, 3);
  actors.send(bob, request(1, bus::cancel{{std::uint64_t{1}}}));
  actors.send(ada, request(2, bus::cancel{{std::string("1")}}));
  actors.run();
  check_error(actors, bob, 1, errc::unknown_session, "1");
  check_error(actors, ada, 2, errc::unknown_session, "1");
  CHECK(last_reply<bus::done>(actors, ada, 1).finish == "length");
  actors.send(ada, request(3, bus::cancel{{std::uint64_t{1}}}));
  actors.run();
  check_error(actors, ada, 3, errc::unknown_session, "1");
}

TEST_CASE("a client that leaves gets nothing more, its session ends, and the others are served on") {
  const auto seed = GENERATE(range(0u, 3u));
  cast actors;
  actors.draw_jobs_from(seed);
  actors.send(ada, request(1, asking(beginning, 200)));
  actors.send(bob, request(1, asking(beginning)));
  run_until_tokens(actors, ada, 1, 5);
  actors.leave(ada);
  actors.run_only(actors.gateway);
  const std::size_t before = replies_to(actors, ada, 1).size();
  actors.run();
  CHECK(replies_to(actors, ada, 1).size() == before);
  CHECK(last_reply<bus::done>(actors, bob, 1).hash == expected_hash());
  const auto state = actors.ask<scheduler_state>(actors.scheduler, info_atom::value);
  REQUIRE(state);
  CHECK(state->sessions == 0);
  CHECK(state->tokens_generated < n_tokens + 30);
}

TEST_CASE("what is under way for a client that left is dropped, and a client of the same name is answered once, with its own") {
  cast actors({.first_layers = {0, 3}, .tick = std::chrono::milliseconds(5)});
  actors.send(ada, request(1, reserve(9)));
  actors.send(ada, {{}, true, reserve(3)});
  actors.run_only(actors.gateway);
  actors.leave(ada);
  actors.send(ada, request(1, reserve(5, 1)));
  actors.send(ada, {{}, true, reserve(6)});
  actors.run();
  const auto report = last_reply<bus::vram_report>(actors, ada, 1);
  REQUIRE(report.cards.size() == 1);
  CHECK(report.cards[0].reserve_mib == 5);
  REQUIRE(actors.replies.size() == 2);
  CHECK(actors.replies[1].text);
  CHECK(std::get<bus::vram_report>(actors.replies[1].what.body).cards.at(0).reserve_mib == 6);
}

TEST_CASE("an id that comes again is answered again and not done again, and one under way is not begun twice") {
  cast actors;
  actors.send(ada, request(1, asking(beginning)));
  run_until_tokens(actors, ada, 1, 3);
  actors.send(ada, request(1, asking(beginning)));
  actors.run();
  const auto first = last_reply<bus::done>(actors, ada, 1);
  CHECK(actors.replies.size() == n_tokens + 1);
  actors.send(ada, request(1, asking(beginning)));
  actors.run();
  REQUIRE(actors.replies.size() == n_tokens + 2);
  const auto again = std::get<bus::done>(actors.replies.back().what.body);
  CHECK(again.hash == first.hash);
  CHECK(again.text == test::demo().vocabulary->decode(test::expected_answer(beginning, n_tokens).tokens));  // since no tokens come
  CHECK(actors.ask<scheduler_state>(actors.scheduler, info_atom::value)->tokens_generated == n_tokens);
}

TEST_CASE("a repeated vram command is answered with the first report though the reserve has changed since") {
  cast actors;
  actors.send(ada, request(1, reserve(9)));
  actors.run();
  actors.send(ada, request(2, reserve(2)));
  actors.run();
  actors.send(ada, request(1, reserve(9)));
  actors.run();
  REQUIRE(actors.replies.size() == 3);
  CHECK(std::get<bus::vram_report>(actors.replies[2].what.body) == std::get<bus::vram_report>(actors.replies[0].what.body));
  CHECK(actors.ask<bus::card_info>(actors.cards[0], info_atom::value)->report.reserve_mib == 2);
}

TEST_CASE("text commands are answered as text, each of them") {
  cast actors;
  for (int again = 0; again < 2; ++again) actors.send(ada, {{}, true, reserve(9)});
  actors.run();
  REQUIRE(actors.replies.size() == 2);
  for (const said& each : actors.replies) {
    CHECK(each.text);
    CHECK(each.what.id.empty());
    CHECK(std::holds_alternative<bus::vram_report>(each.what.body));
  }
}

TEST_CASE("a card that dies fails what runs, refuses what comes, is lost to vram, and the other card still answers") {
  cast actors({.first_layers = {0, 3}});
  actors.send(ada, request(1, asking(beginning)));
  actors.send(bob, request(1, asking(beginning)));
  run_until_tokens(actors, ada, 1, 5);
  actors.end(actors.cards[1]);
  actors.run();
  check_error(actors, ada, 1, errc::card_lost, "ended");
  check_error(actors, bob, 1, errc::card_lost, "ended");
  actors.send(ada, request(2, asking(beginning)));
  actors.send(ada, request(3, reserve(5, 1)));
  actors.send(ada, request(4, reserve(5, 0)));
  actors.send(ada, request(5, bus::cards{}));
  actors.send(ada, request(6, bus::status{}));
  actors.run();
  check_error(actors, ada, 2, errc::card_lost, "ended");
  check_error(actors, ada, 3, errc::card_lost, "ended");
  CHECK(last_reply<bus::vram_report>(actors, ada, 4).cards.at(0).reserve_mib == 5);
  check_error(actors, ada, 5, errc::card_lost, "ended");
  CHECK(last_reply<bus::status_report>(actors, ada, 6).sessions == 0);
}

TEST_CASE("two vram commands at once are both carried out, the later one last") {
  cast actors({.first_layers = {0, 3}, .tick = std::chrono::milliseconds(5)});
  actors.send(ada, request(1, reserve(11)));
  actors.send(bob, request(1, reserve(4)));
  actors.run();
  REQUIRE(actors.replies.size() == 2);
  CHECK(actors.replies[0].to == ada);
  for (const bus::card_report& card : last_reply<bus::vram_report>(actors, ada, 1).cards) CHECK(card.reserve_mib == 11);
  for (const bus::card_report& card : last_reply<bus::vram_report>(actors, bob, 1).cards) CHECK(card.reserve_mib == 4);
  for (const card_actor& card : actors.cards) CHECK(actors.ask<bus::card_info>(card, info_atom::value)->report.reserve_mib == 4);
}

TEST_CASE("an unknown device is refused and the devices are named") {
  cast actors;
  actors.send(ada, request(1, reserve(5, 1)));
  actors.run();
  check_error(actors, ada, 1, errc::unknown_device, "the only device is 0");
}

TEST_CASE("a generate that cannot be served is refused, and those that run are not touched") {
  cast actors;
  actors.send(ada, request(1, asking(beginning)));
  run_until_tokens(actors, ada, 1, 3);
  bus::generate unmatched = asking(beginning);
  unmatched.stop = {"\xff"};
  bus::generate too_long;
  too_long.ids.assign(cast::context, 1);
  actors.send(bob, request(1, unmatched));
  actors.send(bob, request(2, too_long));
  actors.send(bob, request(3, asking("")));
  actors.run();
  check_error(actors, bob, 1, errc::bad_value, "stop");
  check_error(actors, bob, 2, errc::too_large, "context");
  check_error(actors, bob, 3, errc::bad_value, "prompt");
  CHECK(last_reply<bus::done>(actors, ada, 1).hash == expected_hash());
}

TEST_CASE("requests beyond the most that may be open are refused as busy, and later ones are not") {
  cast actors;
  for (std::uint64_t id = 1; id <= limits::in_flight_max + 1; ++id) actors.send(ada, request(id, bus::status{}));
  actors.run_only(actors.gateway);
  CHECK(actors.replies.size() == 1);
  check_error(actors, ada, limits::in_flight_max + 1, errc::busy, "1024");
  actors.run();
  CHECK(actors.replies.size() == limits::in_flight_max + 1);
  actors.send(bob, request(1, bus::status{}));
  actors.run();
  last_reply<bus::status_report>(actors, bob, 1);
}

TEST_CASE("status tells what the scheduler and the process know") {
  cast actors;
  actors.send(ada, request(1, asking(beginning, 3)));
  actors.run();
  actors.send(ada, request(2, bus::status{}));
  actors.run();
  const auto status = last_reply<bus::status_report>(actors, ada, 2);
  CHECK(status.version == "test");
  CHECK(status.uptime_s == 12);
  CHECK(status.tokens_generated == 3);
  CHECK(status.sessions == 0);
  CHECK(status.sessions_max == 4);
  CHECK(status.prompt_tokens == 7);
  REQUIRE(status.gap_counts.size() == limits::gap_bounds_ms.size() + 1);
  CHECK(std::accumulate(status.gap_counts.begin(), status.gap_counts.end(), std::uint64_t{0}) == 2);
}

TEST_CASE("an answer whose log probabilities are asked for has the same tokens and bits, and says how likely each was") {
  const auto first_layers = GENERATE(std::vector<std::uint32_t>{0}, std::vector<std::uint32_t>{0, 3});
  cast actors({.first_layers = first_layers});
  auto asked = asking(beginning);
  asked.logprobs = 5;
  actors.send(ada, request(1, asked));
  actors.send(bob, request(1, asking(beginning)));
  actors.run();
  CHECK(last_reply<bus::done>(actors, ada, 1).hash == expected_hash());
  const auto plain = replies_to(actors, bob, 1);
  const auto replies = replies_to(actors, ada, 1);
  REQUIRE(replies.size() == plain.size());
  for (std::size_t i = 0; i < n_tokens; ++i) {
    const auto& token = std::get<bus::token>(replies[i].body);
    const auto& bare = std::get<bus::token>(plain[i].body);
    CHECK(token.id == bare.id);
    CHECK(token.text == bare.text);
    CHECK_FALSE(bare.logprob);
    CHECK(bare.top.empty());
    REQUIRE(token.top.size() == 5);
    CHECK(token.top.front().id == token.id);  // the likeliest is taken
    CHECK(token.logprob == token.top.front().logprob);
    CHECK(token.top.front().text == test::demo().vocabulary->bytes_of(token.id, true));
    CHECK(std::is_sorted(token.top.begin(), token.top.end(), [](const auto& a, const auto& b) { return a.logprob > b.logprob; }));
    double sum = 0;
    for (const auto& each : token.top) sum += std::exp(each.logprob);
    CHECK(sum <= 1 + 1e-6);
  }
}

TEST_CASE("a conversation is answered as the text that its template makes of it") {
  cast actors;
  auto chat = asking("");
  chat.messages = {{"user", "Who made the heaven?", ""}};
  actors.send(ada, request(1, chat));
  actors.send(ada, request(2, bus::tokenize{"user: Who made the heaven?\n\nassistant:", false}));
  actors.run();
  CHECK(last_reply<bus::done>(actors, ada, 1).hash == expected_hash("user: Who made the heaven?\n\nassistant:"));
  CHECK(last_reply<bus::tokenized>(actors, ada, 2).ids.size() == last_reply<bus::done>(actors, ada, 1).prompt_tokens);
  chat.messages[0].role.clear();
  actors.send(ada, request(3, chat));
  actors.run();
  check_error(actors, ada, 3, errc::bad_value, "message 0 has no role");
}

TEST_CASE("tokens and texts are told, wrong tokens are refused, and an id that comes again is answered again") {
  cast actors;
  actors.send(ada, request(1, bus::tokenize{beginning, false}));
  actors.run();
  const auto found = last_reply<bus::tokenized>(actors, ada, 1);
  CHECK(found.ids == test::demo().vocabulary->encode(beginning, false));
  actors.send(ada, request(2, bus::detokenize{found.ids}));
  actors.send(ada, request(3, bus::detokenize{{1'000'000}}));
  actors.run();
  CHECK(last_reply<bus::detokenized>(actors, ada, 2).text == beginning);
  check_error(actors, ada, 3, errc::bad_value, "1000000");
  actors.replies.clear();
  actors.send(ada, request(1, bus::tokenize{beginning, false}));
  actors.run();
  CHECK(last_reply<bus::tokenized>(actors, ada, 1) == found);
}

TEST_CASE("a client that leaves gets no tokens of the text that it asked about") {
  cast actors;
  actors.send(ada, request(1, bus::tokenize{beginning, false}));
  actors.run_only(actors.gateway);
  actors.leave(ada);
  actors.run();
  CHECK(actors.replies.empty());
}

TEST_CASE("experts are told card by card, and a card that gave memory back has fewer") {
  cast actors({.first_layers = {0, 2, 4}});
  actors.draw_jobs_from(3);
  actors.send(ada, request(1, reserve(6, 1)));
  actors.run();
  actors.send(ada, request(2, bus::experts{}));
  actors.run();
  const auto cards = last_reply<bus::experts_report>(actors, ada, 2).cards;
  REQUIRE(cards.size() == 3);
  for (std::uint32_t number = 0; number < 3; ++number) {
    CHECK(cards[number].device == number);
    CHECK(cards[number].layer_begin == 2 * number);
    CHECK(cards[number].layer_end == 2 * number + 2);
    CHECK(cards[number].experts == 32);
    const bool is_resident = cards[number].resident == std::string(2 * 2 * 32 / 8, 'f');
    CHECK(is_resident == (number != 1));
  }
}

TEST_CASE("cards are told in the order of their numbers") {
  cast actors({.first_layers = {0, 2, 4}});
  actors.draw_jobs_from(3);
  actors.send(ada, request(1, bus::cards{}));
  actors.run();
  const auto cards = last_reply<bus::cards_report>(actors, ada, 1).cards;
  REQUIRE(cards.size() == 3);
  for (std::uint32_t number = 0; number < 3; ++number) {
    CHECK(cards[number].report.device == number);
    CHECK(cards[number].layer_begin == 2 * number);
    CHECK(cards[number].layer_end == 2 * number + 2);
    CHECK(cards[number].resident);
    CHECK(cards[number].fast_path);
  }
}

TEST_CASE("stop answers everything that is open with cancelled, and then what comes") {
  cast actors({.places = 2});
  for (std::uint64_t id : {1, 2, 3}) actors.send(ada, request(id, asking(beginning, 200)));
  run_until_tokens(actors, ada, 1, 5);
  CHECK(actors.ask<scheduler_state>(actors.scheduler, stop_atom::value));
  actors.send(ada, request(4, asking(beginning)));
  actors.run();
  for (std::uint64_t id : {1, 2, 3, 4}) check_error(actors, ada, id, errc::cancelled, "stopping");
  auto stopped = actors.self()->request(actors.gateway, caf::infinite, stop_atom::value);
  actors.run();
  bool answered = false;
  stopped.receive([&] { answered = true; }, [](const caf::error&) {});
  CHECK(answered);
}

TEST_CASE("a cancel that comes while the prompt is being made into tokens ends the answer before it begins") {
  cast actors;
  actors.send(ada, request(1, asking(beginning)));
  actors.send(ada, request(2, bus::cancel{{std::uint64_t{1}}}));
  actors.run_only(actors.gateway);
  CHECK(last_reply<bus::done>(actors, ada, 1).finish == "cancelled");
  CHECK(last_reply<bus::done>(actors, ada, 1).generated_tokens == 0);
  last_reply<bus::cancelled>(actors, ada, 2);
  actors.run();
  CHECK(replies_to(actors, ada, 1).size() == 1);
  const auto state = actors.ask<scheduler_state>(actors.scheduler, info_atom::value);
  REQUIRE(state);
  CHECK(state->windows == 0);
}

TEST_CASE("a client that leaves while its prompt is being made into tokens begins nothing") {
  cast actors;
  actors.send(ada, request(1, asking(beginning)));
  actors.leave(ada);
  actors.run();
  CHECK(actors.replies.empty());
  const auto state = actors.ask<scheduler_state>(actors.scheduler, info_atom::value);
  REQUIRE(state);
  CHECK(state->windows == 0);
}

TEST_CASE("one client cannot take the room of another: beyond its share it is told to try again") {
  cast actors;
  for (std::uint64_t id = 1; id <= limits::sessions_of_client_max + 1; ++id) actors.send(ada, request(id, asking(beginning, 1)));
  actors.send(bob, request(1, asking(beginning, 1)));
  actors.run();
  for (std::uint64_t id = 1; id <= limits::sessions_of_client_max; ++id) last_reply<bus::done>(actors, ada, id);
  check_error(actors, ada, limits::sessions_of_client_max + 1, errc::busy, "256 answers for this client");
  last_reply<bus::done>(actors, bob, 1);
}

}  // namespace
}  // namespace ebb::actors

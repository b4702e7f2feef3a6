#include "actors/batcher.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <ostream>
#include <random>
#include <set>

namespace ebb::actors {
namespace {

using namespace std::chrono_literals;

constexpr time_point start{1h};
constexpr std::uint32_t repeat_max = 8;

std::shared_ptr<const session_order> order_of(std::uint32_t n_prompt, token_id first = 100) {
  session_order order;
  for (std::uint32_t i = 0; i < n_prompt; ++i) order.prompt.push_back(first + static_cast<token_id>(i));
  return std::make_shared<const session_order>(std::move(order));
}

struct row {
  std::uint32_t place, position;
  token_id token;
  friend bool operator==(const row&, const row&) = default;
};
std::ostream& operator<<(std::ostream& out, const row& one) {
  return out << "(place " << one.place << ", position " << one.position << ", token " << one.token << ")";
}

std::vector<row> rows_of(const window& what) {
  REQUIRE(what.rows.size() == what.tokens.size());
  std::vector<row> all;
  for (std::size_t i = 0; i < what.rows.size(); ++i) all.push_back({what.rows[i].session, what.rows[i].position, what.tokens[i]});
  return all;
}

// What a last stage might answer: a token for each sampled row.
window_result answer_to(const window& what, token_id token) {
  window_result answer{.number = what.number};
  for (const sampled_row& wanted : what.sampled) answer.picked.push_back({.session = wanted.session, .token = token, .text = "x"});
  answer.hits.assign(what.rows.size(), 3);
  answer.picks_per_row = 4;
  return answer;
}

std::vector<session_token> run(batcher& sessions, token_id token, time_point now = start) {
  const window next = sessions.next_window(0);
  return sessions.complete(next, answer_to(next, token), now);
}

// The window that would come next.
window foreseen(batcher& sessions, std::uint32_t repeats = 0) {
  window next = sessions.next_window(repeats);
  sessions.not_run(next);
  return next;
}

void join(batcher& sessions, std::uint64_t number, std::uint32_t n_prompt) {
  sessions.submit({number}, order_of(n_prompt), start);
  REQUIRE(sessions.admit());
}

TEST_CASE("sessions get the lowest free places in the order of their coming, and wait when there is none") {
  batcher sessions(2);
  for (std::uint64_t number : {11, 12, 13, 14}) sessions.submit({number}, order_of(1), start);
  CHECK(sessions.waiting_count() == 4);
  const auto first = sessions.admit();
  REQUIRE(first);
  CHECK(first->session == session_id{11});
  CHECK(first->place == 0);
  CHECK(first->order->prompt == std::vector<token_id>{100});
  CHECK(sessions.admit()->place == 1);
  CHECK_FALSE(sessions.has_room());
  CHECK_FALSE(sessions.admit());
  CHECK(sessions.running_count() == 2);
  CHECK(sessions.waiting_count() == 2);
  CHECK(sessions.sessions() == std::vector<session_id>{{11}, {12}, {13}, {14}});

  CHECK(sessions.remove({11}).place == 0u);
  const auto third = sessions.admit();
  REQUIRE(third);
  CHECK(third->session == session_id{13});
  CHECK(third->place == 0);
  CHECK(sessions.running({13}));
  CHECK_FALSE(sessions.running({14}));
}

TEST_CASE("a session is removed wherever it is, and one that is not known is not") {
  batcher sessions(1);
  join(sessions, 1, 1);
  sessions.submit({2}, order_of(1), start);
  const auto waiting = sessions.remove({2});
  CHECK(waiting.known);
  CHECK_FALSE(waiting.place);
  CHECK(sessions.waiting_count() == 0);
  CHECK(sessions.remove({1}).place == 0u);
  CHECK_FALSE(sessions.remove({1}).known);
  CHECK_FALSE(sessions.remove({77}).known);
}

TEST_CASE("without sessions there is no window, and it counts for none") {
  batcher sessions(2);
  CHECK(sessions.next_window(repeat_max).rows.empty());
  CHECK(sessions.windows() == 0);
}

TEST_CASE("a prompt is read in chunks, and only its last row is sampled") {
  batcher sessions(2);
  const std::uint32_t chunk = limits::prompt_chunk_rows;
  join(sessions, 1, 2 * chunk + 3);
  for (const std::uint32_t first : {0u, chunk}) {
    const window next = sessions.next_window(repeat_max);
    CHECK(next.rows.size() == chunk);
    CHECK(rows_of(next).front() == row{0, first, 100 + static_cast<token_id>(first)});
    CHECK(rows_of(next).back() == row{0, first + chunk - 1, 99 + static_cast<token_id>(first + chunk)});
    CHECK(next.sampled.empty());
    CHECK(next.repeat == 0);
    CHECK(sessions.complete(next, answer_to(next, 5), start).empty());
  }
  const window last = sessions.next_window(repeat_max);
  CHECK(last.number == 3);
  CHECK(last.rows.size() == 3);
  REQUIRE(last.sampled.size() == 1);
  CHECK(last.sampled[0].row == 2);
  CHECK(last.sampled[0].session == session_id{1});
  const auto tokens = sessions.complete(last, answer_to(last, 5), start);
  REQUIRE(tokens.size() == 1);
  CHECK(tokens[0].index == 0);
  CHECK(tokens[0].token == 5);
  CHECK(rows_of(sessions.next_window(0)) == std::vector<row>{{0, 2 * chunk + 3, 5}});
}

TEST_CASE("while no session decodes a prompt has the larger chunk, which prompts that are read together share, and while one does the smaller") {
  batcher sessions(4, {.alone = 512, .shared = 128});
  const auto rows_of_place = [&](std::uint32_t place) {
    const auto rows = rows_of(foreseen(sessions));
    return std::count_if(rows.begin(), rows.end(), [&](const row& each) { return each.place == place; });
  };
  join(sessions, 1, 2000);
  CHECK(rows_of_place(0) == 512);
  join(sessions, 2, 2000);
  CHECK(rows_of_place(0) == 256);
  CHECK(rows_of_place(1) == 256);
  join(sessions, 3, 1);
  CHECK(rows_of_place(0) == 170);
  run(sessions, 7);  // the third has its first token and decodes from now on
  CHECK(rows_of_place(2) == 1);
  CHECK(rows_of_place(0) == 128);
  CHECK(rows_of_place(1) == 128);
  sessions.hold({3});
  CHECK(rows_of_place(0) == 256);
}

TEST_CASE("a session that decodes has a row in every window, in front of the prompts that are read meanwhile") {
  batcher sessions(3);
  join(sessions, 1, 2);
  run(sessions, 7);
  join(sessions, 2, limits::prompt_chunk_rows + 1);
  join(sessions, 3, 2);
  const window next = sessions.next_window(repeat_max);
  const auto rows = rows_of(next);
  REQUIRE(rows.size() == 1 + limits::prompt_chunk_rows + 2);
  CHECK(rows[0] == row{0, 2, 7});
  CHECK(rows[1] == row{1, 0, 100});
  CHECK(rows[1 + limits::prompt_chunk_rows] == row{2, 0, 100});
  REQUIRE(next.sampled.size() == 2);
  CHECK(next.sampled[0].session == session_id{1});
  CHECK(next.sampled[0].row == 0);
  CHECK(next.sampled[1].session == session_id{3});
  CHECK(next.sampled[1].row == rows.size() - 1);
}

TEST_CASE("a window never has more rows than there is scratch for") {
  const std::uint32_t places = 12;
  batcher sessions(places);
  for (std::uint64_t number = 0; number < places; ++number) join(sessions, number, 1000);
  const window next = sessions.next_window(0);
  CHECK(next.rows.size() == limits::window_rows_max);
  CHECK(next.sampled.empty());
}

TEST_CASE("a card may repeat a window only if every row decodes and nobody could join") {
  batcher sessions(2);
  join(sessions, 1, 1);
  CHECK(foreseen(sessions, repeat_max).repeat == 0);  // a prompt is read
  run(sessions, 7);
  CHECK(foreseen(sessions, repeat_max).repeat == repeat_max);
  sessions.submit({2}, order_of(1), start);
  CHECK(foreseen(sessions, repeat_max).repeat == 0);  // a place is free and somebody waits
  REQUIRE(sessions.admit());
  CHECK(foreseen(sessions, repeat_max).repeat == 0);
  run(sessions, 7);
  sessions.submit({3}, order_of(1), start);
  CHECK(foreseen(sessions, repeat_max).repeat == repeat_max);  // somebody waits, but no place is free
}

TEST_CASE("a session that is held keeps its place and has no rows") {
  batcher sessions(2);
  join(sessions, 1, 1);
  join(sessions, 2, 1);
  run(sessions, 7);
  sessions.hold({1});
  CHECK(rows_of(foreseen(sessions)) == std::vector<row>{{1, 1, 7}});
  sessions.submit({3}, order_of(1), start);
  CHECK_FALSE(sessions.admit());
  CHECK(sessions.remove({1}).place == 0u);
  CHECK(sessions.admit()->place == 0);
}

TEST_CASE("the summary counts tokens, times, the largest gap and the share of hits") {
  batcher sessions(2);
  sessions.submit({1}, order_of(3), start);
  REQUIRE(sessions.admit());
  const auto window_at = [&](time_point now) {
    const window next = sessions.next_window(0);
    const window_result answer = answer_to(next, 7);
    sessions.count_hits(next, answer);
    sessions.complete(next, answer, now);
  };
  window_at(start + 40ms);
  window_at(start + 50ms);
  window_at(start + 75ms);
  window_at(start + 80ms);
  const bus::done said = sessions.summary({1}, model::finish::length, "abc", start + 90ms);
  CHECK(said.finish == "length");
  CHECK(said.hash == "abc");
  CHECK(said.text.empty());
  CHECK(said.prompt_tokens == 3);
  CHECK(said.generated_tokens == 4);
  CHECK(said.prompt_ms == Approx(40));
  CHECK(said.decode_ms == Approx(40));
  CHECK(said.tokens_per_s == Approx(3 / 0.040));
  CHECK(said.gap_ms_max == Approx(25));
  CHECK(said.hit_rate == Approx(0.75));
  CHECK(sessions.tokens() == 4);
  CHECK(sessions.windows() == 4);
  CHECK(sessions.prompt_tokens() == 3);
  CHECK(sessions.gaps().counts() == gap_histogram::counts_type{0, 0, 1, 1, 0, 1});
  CHECK(sessions.gaps().sum_ms() == Approx(40));
}

TEST_CASE("prompt tokens are counted when their window has ended, and stay when their session has left") {
  batcher sessions(2);
  join(sessions, 1, limits::prompt_chunk_rows + 7);
  run(sessions, 5);
  CHECK(sessions.prompt_tokens() == limits::prompt_chunk_rows);
  run(sessions, 5);
  CHECK(sessions.prompt_tokens() == limits::prompt_chunk_rows + 7);
  join(sessions, 2, 9);
  const window next = sessions.next_window(0);
  CHECK(sessions.prompt_tokens() == limits::prompt_chunk_rows + 7);
  sessions.complete(next, answer_to(next, 5), start);
  CHECK(sessions.prompt_tokens() == limits::prompt_chunk_rows + 16);
  sessions.remove({1});
  run(sessions, 5);
  CHECK(sessions.prompt_tokens() == limits::prompt_chunk_rows + 16);
}

TEST_CASE("the hits of several stages add up") {
  batcher sessions(1);
  join(sessions, 1, 1);
  const window next = sessions.next_window(0);
  sessions.count_hits(next, {.hits = {0}, .picks_per_row = 8});
  sessions.count_hits(next, {.hits = {6}, .picks_per_row = 16});
  CHECK(sessions.summary({1}, model::finish::stop, "", start).hit_rate == Approx(0.25));
}

TEST_CASE("an answer that ends before its first token says so without dividing by nothing") {
  batcher sessions(1);
  join(sessions, 1, 5);
  const bus::done said = sessions.summary({1}, model::finish::cancelled, "", start + 12ms);
  CHECK(said.generated_tokens == 0);
  CHECK(said.prompt_ms == Approx(12));
  CHECK(said.decode_ms == 0);
  CHECK(said.tokens_per_s == 0);
  CHECK(said.hit_rate == 0);
}

TEST_CASE("the window that follows is the one the batcher would have made") {
  batcher sessions(3);
  for (std::uint64_t number : {1, 2, 3}) join(sessions, number, 2 + static_cast<std::uint32_t>(number));
  run(sessions, 7);
  window by_card = sessions.next_window(repeat_max);
  for (std::uint32_t repeats = 1; repeats <= repeat_max; ++repeats) {
    const window_result answer = answer_to(by_card, static_cast<token_id>(20 + repeats));
    sessions.complete(by_card, answer, start);
    by_card = following(by_card, answer);
    CHECK(by_card.repeat == repeat_max - repeats);
    const window by_batcher = sessions.next_window(0);
    CHECK(rows_of(by_card) == rows_of(by_batcher));
    REQUIRE(by_card.sampled.size() == by_batcher.sampled.size());
    for (std::size_t i = 0; i < by_card.sampled.size(); ++i) {
      CHECK(by_card.sampled[i].row == by_batcher.sampled[i].row);
      CHECK(by_card.sampled[i].session == by_batcher.sampled[i].session);
    }
  }
}

// What a session must be fed, kept apart from the batcher.
struct naive_session {
  std::vector<token_id> fed;  // prompt, then answer: what its rows must be, in order
  std::size_t n_prompt = 0;
  std::size_t position = 0;
  bool decodes() const { return fed.size() > n_prompt; }
};

TEST_CASE("under random joining, leaving and holding each session is fed its prompt and then its answer, each row once and in order") {
  const auto seed = GENERATE(range(0u, 20u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::uint32_t places = 1 + seed % 6;
  batcher sessions(places);
  std::map<session_id, naive_session> running;
  std::map<std::uint32_t, session_id> of_place;
  std::deque<session_id> waiting;
  std::map<session_id, naive_session> all;
  std::set<session_id> held;
  std::uint64_t begun = 0, tokens = 0;

  for (int step = 0; step < 400; ++step) {
    CAPTURE(step);
    if (random() % 4 == 0) {
      const session_id fresh{++begun};
      auto order = order_of(1 + random() % 200, static_cast<token_id>(begun * 1000));
      all[fresh] = {order->prompt, order->prompt.size(), 0};
      sessions.submit(fresh, order, start);
      waiting.push_back(fresh);
    }
    while (const auto opening = sessions.admit()) {
      REQUIRE(!waiting.empty());
      REQUIRE(opening->session == waiting.front());
      REQUIRE(opening->place < places);
      REQUIRE_FALSE(of_place.contains(opening->place));
      waiting.pop_front();
      of_place[opening->place] = opening->session;
      running[opening->session] = all[opening->session];
    }
    REQUIRE(sessions.waiting_count() == waiting.size());
    REQUIRE(sessions.running_count() == running.size());
    REQUIRE((waiting.empty() || running.size() == places));

    const window next = sessions.next_window(repeat_max);
    std::map<session_id, std::size_t> rows_for;
    for (const row& one : rows_of(next)) {
      REQUIRE(of_place.contains(one.place));
      naive_session& of = running[of_place[one.place]];
      REQUIRE_FALSE(held.contains(of_place[one.place]));
      REQUIRE(one.position == of.position);
      REQUIRE(one.token == of.fed.at(of.position));
      ++of.position;
      ++rows_for[of_place[one.place]];
    }
    bool all_decode = true;
    std::size_t sampled = 0;
    for (const auto& [session, of] : running) {
      if (held.contains(session)) continue;
      if (of.decodes()) REQUIRE(rows_for[session] == 1);
      else all_decode = false;
      REQUIRE(rows_for[session] <= limits::prompt_chunk_rows);
      sampled += of.position == of.fed.size();
    }
    REQUIRE(next.sampled.size() == sampled);
    REQUIRE(next.rows.size() <= limits::window_rows_max);
    REQUIRE((next.repeat == repeat_max) == all_decode);  // whoever waits finds no place here

    if (!next.rows.empty()) {
      const auto token = static_cast<token_id>(random() % 100);
      for (const session_token& told : sessions.complete(next, answer_to(next, token), start)) {
        naive_session& of = running[told.session];
        REQUIRE(told.index == of.fed.size() - of.n_prompt);
        REQUIRE(told.token == token);
        of.fed.push_back(token);
        ++tokens;
      }
    }
    if (!running.empty() && random() % 8 == 0) {
      const session_id leaves = std::next(running.begin(), static_cast<std::ptrdiff_t>(random() % running.size()))->first;
      if (random() % 2) {
        sessions.hold(leaves);
        held.insert(leaves);
      } else {
        const auto place = sessions.remove(leaves).place;
        REQUIRE(place);
        REQUIRE(of_place.at(*place) == leaves);
        of_place.erase(*place);
        running.erase(leaves);
        held.erase(leaves);
      }
    }
  }
  CHECK(tokens > 0);
  CHECK(sessions.tokens() == tokens);
}

// --- several windows at a time

std::set<std::uint32_t> places_of(const window& what) {
  std::set<std::uint32_t> places;
  for (const row& one : rows_of(what)) places.insert(one.place);
  return places;
}

using places = std::set<std::uint32_t>;

// In two windows, each with half of the sessions.
void read_prompts(batcher& sessions) {
  const window first = sessions.next_window(0), second = sessions.next_window(0);
  for (const window* each : {&first, &second}) sessions.complete(*each, answer_to(*each, 5), start);
  REQUIRE(sessions.tokens() == sessions.running_count());
}

TEST_CASE("sessions that decode are shared out evenly between the windows that may be under way, each in one at a time") {
  batcher sessions(5, {}, 2);
  for (std::uint64_t number = 1; number <= 5; ++number) join(sessions, number, 1);
  read_prompts(sessions);
  const window first = sessions.next_window(0);
  const window second = sessions.next_window(0);
  CHECK(places_of(first) == places{0, 1, 2});
  CHECK(places_of(second) == places{3, 4});
  CHECK(first.number != second.number);
  CHECK(sessions.under_way({1}));
  CHECK(sessions.next_window(0).rows.empty());
  sessions.complete(first, answer_to(first, 6), start);
  CHECK_FALSE(sessions.under_way({1}));
  CHECK(sessions.under_way({4}));
  CHECK(rows_of(sessions.next_window(0)) == std::vector<row>{{0, 2, 6}, {1, 2, 6}, {2, 2, 6}});
}

TEST_CASE("when sessions have left, the windows become even again") {
  batcher sessions(4, {}, 2);
  for (std::uint64_t number = 1; number <= 4; ++number) join(sessions, number, 1);
  read_prompts(sessions);
  const window first = sessions.next_window(0), second = sessions.next_window(0);
  sessions.complete(first, answer_to(first, 6), start);
  sessions.remove({1});
  sessions.remove({2});
  CHECK(sessions.next_window(0).rows.empty());
  sessions.complete(second, answer_to(second, 6), start);
  CHECK(places_of(sessions.next_window(0)) == places{2});
  CHECK(places_of(sessions.next_window(0)) == places{3});
}

TEST_CASE("a prompt goes on in the next window while the last is under way, and decodes only when its last row is done") {
  batcher sessions(1, {8, 8}, 2);
  join(sessions, 1, 12);
  const window first = sessions.next_window(0), second = sessions.next_window(0);
  CHECK(first.rows.size() == 8);
  CHECK(first.sampled.empty());
  CHECK(rows_of(second) == std::vector<row>{{0, 8, 108}, {0, 9, 109}, {0, 10, 110}, {0, 11, 111}});
  CHECK(second.sampled.size() == 1);
  CHECK(sessions.next_window(0).rows.empty());
  CHECK(sessions.complete(first, answer_to(first, 5), start).empty());
  CHECK(sessions.under_way({1}));
  CHECK(sessions.next_window(0).rows.empty());
  CHECK(sessions.complete(second, answer_to(second, 5), start).size() == 1);
  CHECK(rows_of(sessions.next_window(0)) == std::vector<row>{{0, 12, 5}});
}

TEST_CASE("of two prompts that are read in two windows none waits for the end of the other, and one beside a session that decodes has small chunks") {
  batcher sessions(3, {16, 4}, 2);
  join(sessions, 1, 100);
  join(sessions, 2, 100);
  const window first = sessions.next_window(0), second = sessions.next_window(0);
  CHECK(places_of(first) == places{0});
  CHECK(places_of(second) == places{1});
  CHECK(first.rows.size() == 8);  // they share the large chunk
  sessions.complete(first, answer_to(first, 5), start);
  sessions.remove({1});
  join(sessions, 3, 1);
  const window third = sessions.next_window(0);
  CHECK(places_of(third) == places{0});
  sessions.complete(second, answer_to(second, 5), start);
  sessions.complete(third, answer_to(third, 5), start);
  CHECK(rows_of(sessions.next_window(0)) == std::vector<row>{{0, 1, 5}});
  CHECK(sessions.next_window(0).rows.size() == 4);
}

TEST_CASE("the rows of a window that a card did not run come again, and those of one that it ran on its own do not") {
  batcher sessions(1);
  join(sessions, 1, 1);
  read_prompts(sessions);
  const window first = sessions.next_window(repeat_max);
  sessions.complete(first, answer_to(first, 6), start);
  const window next = following(first, answer_to(first, 6));
  sessions.goes_on(next);
  CHECK(sessions.under_way({1}));
  sessions.not_run(next);
  CHECK_FALSE(sessions.under_way({1}));
  const window again = sessions.next_window(repeat_max);
  CHECK(rows_of(again) == rows_of(next));
  sessions.complete(again, answer_to(again, 7), start);
  const window on = following(again, answer_to(again, 7));
  sessions.goes_on(on);
  sessions.complete(on, answer_to(on, 8), start);
  CHECK(rows_of(sessions.next_window(0)) == std::vector<row>{{0, 4, 8}});
}

TEST_CASE("with several windows under way each session is fed its prompt and then its answer, each row once and in order, and none is forgotten") {
  const auto seed = GENERATE(range(0u, 30u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::uint32_t n_places = 1 + seed % 6, windows_max = 1 + seed % 4;
  batcher sessions(n_places, {32, 8}, windows_max);
  std::map<session_id, naive_session> running;
  std::map<std::uint32_t, session_id> of_place;
  std::deque<window> under_way;  // oldest first: they end in the order of their beginning
  std::map<session_id, int> since_fed;  // windows that ended since it was in one that began
  std::uint64_t begun = 0;
  const auto in_a_window = [&](std::uint32_t place) {
    return std::any_of(under_way.begin(), under_way.end(), [&](const window& each) { return places_of(each).contains(place); });
  };
  for (int step = 0; step < 600; ++step) {
    CAPTURE(step);
    if (random() % 6 == 0) {
      const session_id fresh{++begun};
      auto order = order_of(1 + random() % 100, static_cast<token_id>(begun * 1000));
      sessions.submit(fresh, order, start);
      running[fresh] = {order->prompt, order->prompt.size(), 0};
    }
    while (const auto opening = sessions.admit()) of_place[opening->place] = opening->session;
    while (under_way.size() < windows_max) {
      window next = sessions.next_window(0);
      if (next.rows.empty()) break;
      const std::size_t fair = (of_place.size() + windows_max - 1) / windows_max;
      REQUIRE(places_of(next).size() <= fair);
      for (const row& one : rows_of(next)) {
        naive_session& of = running.at(of_place.at(one.place));
        if (of.decodes()) REQUIRE_FALSE(in_a_window(one.place));
        REQUIRE(one.position == of.position);
        REQUIRE(one.token == of.fed.at(of.position));
        ++of.position;
        since_fed[of_place.at(one.place)] = 0;
      }
      under_way.push_back(std::move(next));
    }
    for (const auto& [place, session] : of_place) REQUIRE(sessions.under_way(session) == in_a_window(place));
    if (!under_way.empty()) {
      const window done = std::move(under_way.front());
      under_way.pop_front();
      for (const session_token& told : sessions.complete(done, answer_to(done, static_cast<token_id>(random() % 100)), start)) {
        naive_session& of = running.at(told.session);
        REQUIRE(of.position == of.fed.size());
        of.fed.push_back(told.token);
      }
      for (const auto& [place, session] : of_place) {
        if (!in_a_window(place)) REQUIRE(++since_fed[session] <= static_cast<int>(2 * windows_max));
      }
    }
    if (!of_place.empty() && random() % 8 == 0) {
      const auto leaves = std::next(of_place.begin(), static_cast<std::ptrdiff_t>(random() % of_place.size()));
      if (in_a_window(leaves->first)) continue;
      sessions.remove(leaves->second);
      running.erase(leaves->second);
      since_fed.erase(leaves->second);
      of_place.erase(leaves);
    }
  }
  CHECK(sessions.tokens() > 0);
}

}  // namespace
}  // namespace ebb::actors

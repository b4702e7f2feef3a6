#include "actors/request_book.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>
#include <utility>

namespace ebb::actors {
namespace {

using verdict = request_book::verdict;

const bus::client_id ada{"ada"}, bob{"bob"};

bus::request_id number(std::uint64_t value) { return {value}; }
bus::reply report(bus::request_id id, std::uint32_t device) { return {std::move(id), bus::vram_report{{bus::card_report{.device = device}}}}; }
std::uint32_t device_in(const bus::reply& what) { return std::get<bus::vram_report>(what.body).cards.at(0).device; }

TEST_CASE("a request is fresh once, then in progress, then answered with what it was answered with") {
  request_book book(10, 10);
  CHECK(book.begin(ada, number(7), 1) == verdict::fresh);
  CHECK(book.begin(ada, number(7), 1) == verdict::in_progress);
  CHECK(book.open_count() == 1);
  book.finish(ada, report(number(7), 3));
  CHECK(book.open_count() == 0);
  CHECK(book.begin(ada, number(7), 1) == verdict::answered);
  CHECK(device_in(book.answer(ada, number(7))) == 3);
  CHECK(book.answer(ada, number(7)).id == number(7));
  CHECK(book.open_count() == 0);
}

TEST_CASE("ids of other clients, and a text that looks like the number, are other requests") {
  request_book book(10, 10);
  CHECK(book.begin(ada, number(7), 1) == verdict::fresh);
  CHECK(book.begin(bob, number(7), 1) == verdict::fresh);
  CHECK(book.begin(ada, {std::string("7")}, 1) == verdict::fresh);
  CHECK(book.open_count() == 3);
}

TEST_CASE("text commands have no id and are always done") {
  request_book book(2, 10);
  CHECK(book.begin(ada, {}, 1) == verdict::fresh);
  CHECK(book.begin(ada, {}, 1) == verdict::fresh);
  CHECK(book.begin(ada, {}, 1) == verdict::full);
  book.finish(ada, report({}, 0));
  CHECK(book.open_count() == 1);
  CHECK(book.begin(ada, {}, 1) == verdict::fresh);
}

TEST_CASE("when too many are open new requests are refused, and known ones are still known") {
  request_book book(2, 10);
  book.begin(ada, number(1), 1);
  book.finish(ada, report(number(1), 1));
  book.begin(ada, number(2), 1);
  book.begin(bob, number(3), 1);
  CHECK(book.begin(ada, number(4), 1) == verdict::full);
  CHECK(book.begin(ada, number(2), 1) == verdict::in_progress);
  CHECK(book.begin(ada, number(1), 1) == verdict::answered);
  CHECK(book.open_count() == 2);
  book.finish(bob, report(number(3), 0));
  CHECK(book.begin(ada, number(4), 1) == verdict::fresh);
}

TEST_CASE("the oldest answers are forgotten when there are too many, whoever asked") {
  request_book book(10, 2);
  for (std::uint64_t id : {1, 2, 3}) {
    const bus::client_id& client = id == 2 ? bob : ada;
    book.begin(client, number(id), 1);
    book.finish(client, report(number(id), static_cast<std::uint32_t>(id)));
  }
  CHECK(book.begin(bob, number(2), 1) == verdict::answered);
  CHECK(book.begin(ada, number(3), 1) == verdict::answered);
  CHECK(book.begin(ada, number(1), 1) == verdict::fresh);
}

TEST_CASE("a client that leaves takes its requests and answers with it, and nobody else's") {
  request_book book(10, 10);
  book.begin(ada, number(1), 1);
  book.begin(ada, number(2), 1);
  book.begin(ada, {}, 1);
  book.begin(bob, number(1), 1);
  book.begin(bob, {}, 1);
  book.finish(ada, report(number(1), 1));
  book.forget(ada);
  CHECK(book.open_count() == 2);
  book.finish(ada, report(number(2), 1));  // too late: nobody is waiting
  book.finish(ada, report({}, 1));
  CHECK(book.open_count() == 2);
  CHECK(book.begin(bob, number(1), 1) == verdict::in_progress);
  CHECK(book.begin(ada, number(1), 1) == verdict::fresh);
  CHECK(book.begin(ada, number(2), 1) == verdict::fresh);
}

// What the book should know: all of it, without any structure.
class naive_book {
 public:
  naive_book(std::size_t open_max, std::size_t remembered_max) : open_max_(open_max), remembered_max_(remembered_max) {}

  verdict begin(const bus::client_id& client, std::uint64_t id) {
    if (std::find(open.begin(), open.end(), key{client, id}) != open.end()) return verdict::in_progress;
    if (find_answer(client, id)) return verdict::answered;
    if (open.size() >= open_max_) return verdict::full;
    open.push_back({client, id});
    return verdict::fresh;
  }
  const std::uint32_t* find_answer(const bus::client_id& client, std::uint64_t id) const {
    for (const auto& [of, device] : answered) {
      if (of == key{client, id}) return &device;
    }
    return nullptr;
  }
  void finish(std::size_t index, std::uint32_t device) {
    answered.push_back({open[index], device});
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(index));
    if (answered.size() > remembered_max_) answered.pop_front();
  }
  void forget(const bus::client_id& client) {
    std::erase_if(open, [&](const key& each) { return each.first == client; });
    std::erase_if(answered, [&](const auto& each) { return each.first.first == client; });
  }

  using key = std::pair<bus::client_id, std::uint64_t>;
  std::vector<key> open;
  std::deque<std::pair<key, std::uint32_t>> answered;

 private:
  std::size_t open_max_, remembered_max_;
};

TEST_CASE("the book agrees with a plain list under random requests, answers and departures") {
  const auto seed = GENERATE(range(0u, 10u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  request_book book(5, 7);
  naive_book naive(5, 7);
  const std::vector<bus::client_id> clients{ada, bob, {"cleo"}};
  std::map<verdict, int> seen;
  for (std::uint32_t step = 0; step < 3000; ++step) {
    CAPTURE(step);
    const bus::client_id& client = clients[random() % clients.size()];
    const auto what = random() % 20;
    if (what == 0) {
      book.forget(client);
      naive.forget(client);
    } else if (what < 10 && !naive.open.empty()) {
      const std::size_t index = random() % naive.open.size();
      const auto [who, id] = naive.open[index];
      book.finish(who, report(number(id), step));
      naive.finish(index, step);
    } else {
      const std::uint64_t id = random() % 6;
      const verdict said = book.begin(client, number(id), 1);
      ++seen[said];
      REQUIRE(said == naive.begin(client, id));
      if (said == verdict::answered) REQUIRE(device_in(book.answer(client, number(id))) == *naive.find_answer(client, id));
    }
    REQUIRE(book.open_count() == naive.open.size());
  }
  CHECK(seen.size() == 4);
}

}  // namespace
}  // namespace ebb::actors

#include "tools/exchange.hpp"
#include "tests/tools/support/demo.hpp"
#include "tools/cache_size.hpp"

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

namespace {

std::unique_ptr<local_connection> demo() {
  auto local = local_connection::start(demo_on(1));
  if (!local) throw std::runtime_error(local.error().text);
  return std::move(*local);
}

}  // namespace

TEST_CASE("questions asked in the middle of an answer are answered while its tokens are noted") {
  const auto local = demo();
  exchange talk(*local);
  const auto answer = talk.begin(greedy(400));
  REQUIRE(answer);
  for (int questions = 0; questions < 3; ++questions) REQUIRE(talk.ask(bus::cards{}, patience));
  while (talk.token_times(*answer).size() < 5) REQUIRE(talk.take(patience));
  REQUIRE(talk.ask(bus::vram{{}, 0}, patience));
  CHECK_FALSE(talk.answered(*answer));
  while (!talk.answered(*answer)) REQUIRE(talk.take(patience));
  const auto times = talk.token_times(*answer);
  CHECK(times.size() == 400);
  CHECK(std::is_sorted(times.begin(), times.end()));
  const auto done = talk.finish(*answer, patience);
  REQUIRE(done);
  CHECK(std::get<bus::done>(done->body).generated_tokens == 400);
}

TEST_CASE("the error of a request is given to whoever finishes it, and no other request sees it") {
  const auto local = demo();
  exchange talk(*local);
  const auto wrong = talk.begin(bus::vram{5, 7});
  REQUIRE(wrong);
  REQUIRE(talk.ask(bus::status{}, patience));
  while (!talk.answered(*wrong)) REQUIRE(talk.take(patience));
  REQUIRE(talk.ask(bus::status{}, patience));
  const auto refused = talk.finish(*wrong, patience);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unknown_device);
}

TEST_CASE("a reserve for a size of the cache brings it to that size") {
  const auto local = demo();
  exchange talk(*local);
  for (const double cache_mib : {5.0, 17.0, 0.0}) {
    const auto now = answer_of<bus::cards_report>(*local, bus::cards{}).cards[0].report;
    const auto then = talk.ask(bus::vram{reserve_for(now, cache_mib), 0}, patience);
    REQUIRE(then);
    const double found_mib = std::get<bus::vram_report>(then->body).cards[0].expert_cache_mib;
    CHECK(found_mib <= cache_mib);
    CHECK(found_mib > cache_mib - 2);
  }
}

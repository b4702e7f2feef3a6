#include "tools/verification.hpp"
#include "tests/tools/support/demo.hpp"
#include <algorithm>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

namespace {

verification_options short_trial() {
  return {.engine = demo_on(2), .prompt = "In the beginning", .n_tokens = 6, .n_resizes = 3, .seed = 5};
}

}  // namespace

TEST_CASE("the promise is tried under every condition and holds") {
  std::vector<verification_row> rows;
  const auto holds = verify_promise(short_trial(), [&](const verification_row& row) { rows.push_back(row); });
  REQUIRE(holds);
  CHECK(*holds);

  const std::size_t n_cards = short_trial().engine.from.cards.size();
  const std::string own = n_cards == 1 ? "on 1 card" : "on " + std::to_string(n_cards) + " cards";
  auto isas = kernels::cpu::available();
  const std::string fastest(to_string(isas.back()));
  // What short_trial asks of its cards, then other numbers of cards, then the other instruction sets.
  const std::vector<std::string> conditions{own + ", undisturbed", "in a batch of 4", "under 3 random vram commands", "cache at 100 %",
                                            "cache at 50 %",       "cache at 25 %",   "cache at its floor"};
  REQUIRE(rows.size() == conditions.size() + 2 + isas.size() - 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    INFO("row " << i);
    CHECK((rows[i].isa == fastest) == (i < conditions.size() + 2));
    if (i < conditions.size()) CHECK(rows[i].condition == conditions[i]);
    else CHECK_THAT(rows[i].condition, Catch::StartsWith("on "));
  }
  for (const auto& row : rows) {
    INFO(row.condition << " " << row.isa);
    CHECK(row.same);
    CHECK(row.hash == rows.front().hash);
    CHECK(row.tokens >= 6);
  }
  CHECK(rows[2].resizes == 3);
  CHECK(rows[3].hit_rate == 1);
  CHECK(rows[5].hit_rate < 1);
  CHECK(rows[6].hit_rate == 0);

  const auto local = local_connection::start(demo_on(1));
  REQUIRE(local);
  CHECK(answer_of<bus::done>(**local, greedy(6)).hash == rows.front().hash);
}

TEST_CASE("a promise that cannot be tried is an error, not a success") {
  int n_rows = 0;
  const auto count = [&](const verification_row&) { ++n_rows; };
  auto options = short_trial();
  options.engine.from.vram_elastic = false;
  const auto refused = verify_promise(options, count);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::refused);
  const int rows_of_refused = n_rows;  // those that need no resize

  options = short_trial();
  options.prompt.clear();
  const auto empty = verify_promise(options, count);
  REQUIRE_FALSE(empty);
  CHECK(empty.error().code == errc::bad_value);

  options = short_trial();
  options.engine.from.model.clear();
  const auto no_model = verify_promise(options, count);
  REQUIRE_FALSE(no_model);
  CHECK(no_model.error().code == errc::missing_key);
  CHECK(n_rows == rows_of_refused);
}

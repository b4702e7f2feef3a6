#include "tools/whole_model.hpp"
#include "config/limits.hpp"
#include <catch2/catch.hpp>
#include <cstring>

using namespace ebb;
using namespace ebb::tools;

namespace {

constexpr std::uint32_t context = 100;

std::unique_ptr<whole_model> demo(unsigned n_threads = 2) {
  auto weights = model::checkpoint::open(EBB_DEMO_MODEL);
  REQUIRE(weights);
  auto all = whole_model::make(*weights, kernels::cpu::available().back(), n_threads, context);
  REQUIRE(all);
  return std::move(*all);
}

std::vector<token_id> some_ids(std::size_t n) {
  std::vector<token_id> ids(n);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<token_id>((i * 2654435761u) % 4096);
  return ids;
}

using logit_rows = std::vector<std::vector<float>>;

logit_rows rows_of(whole_model& all, std::span<const token_id> ids) {
  logit_rows rows;
  const auto ran = all.run(ids, [&](std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); });
  REQUIRE(ran);
  return rows;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("there is a row of logits for each id, also where ids need more than one window") {
  const auto all = demo();
  const auto ids = some_ids(limits::prompt_chunk_rows + 7);
  const logit_rows rows = rows_of(*all, ids);
  REQUIRE(rows.size() == ids.size());
  for (const auto& row : rows) CHECK(row.size() == 4096);
  CHECK_FALSE(same_bits(rows.front(), rows.back()));
}

TEST_CASE("a run begins at position 0 whatever ran before, and no row depends on the rows behind it") {
  const auto all = demo();
  const auto ids = some_ids(limits::prompt_chunk_rows + 7);
  const logit_rows rows = rows_of(*all, ids);
  const logit_rows again = rows_of(*all, std::span(ids).first(20));
  const auto alone = demo(1);
  const logit_rows elsewhere = rows_of(*alone, ids);
  REQUIRE(again.size() == 20);
  REQUIRE(elsewhere.size() == rows.size());
  for (std::size_t i = 0; i < again.size(); ++i) CHECK(same_bits(again[i], rows[i]));
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(same_bits(elsewhere[i], rows[i]));
}

TEST_CASE("more ids than the context, and ids outside the vocabulary, are refused before anything runs") {
  const auto all = demo();
  int n_rows = 0;
  const auto count = [&](std::span<const float>) { ++n_rows; };
  const auto code_of = [&](const std::vector<token_id>& ids) {
    const auto ran = all->run(ids, count);
    return ran ? errc::none : ran.error().code;
  };
  CHECK(code_of(some_ids(context + 1)) == errc::too_large);
  CHECK(code_of({40, 4096}) == errc::bad_value);
  CHECK(code_of({40, -1}) == errc::bad_value);
  CHECK(code_of({}) == errc::none);
  CHECK(n_rows == 0);
  CHECK(code_of({0, 4095}) == errc::none);
  CHECK(n_rows == 2);
  CHECK(code_of(some_ids(context)) == errc::none);
}

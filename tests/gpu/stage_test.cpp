// Stages of real models on the GPU against the same on the CPU: every logit has the same bits, wherever the experts are and however rows come.
#include "tests/gpu/run_of_model.hpp"

using namespace ebb;
using namespace ebb::test;

namespace {

const auto everything = [](expert_id) { return true; };
const auto nothing = [](expert_id) { return false; };
const auto every_third = [](expert_id expert) { return (expert.layer * 7 + expert.index) % 3 == 0; };
const auto all_but_one = [](expert_id expert) { return expert.layer != 2 || expert.index != 3; };

}  // namespace

TEST_CASE("the logits of a conversation have the CPU's bits whatever is in slots and however the prompt is cut", "[gpu][stage]") {
  const auto weights = demo();
  const auto prompt = noise(300, weights->dims().n_vocab, 7);
  const std::string expected = run_of_model::on_host(weights).hash(prompt, 64, 24);
  const auto check = [&](const char* what, run_of_model run) {
    for (const std::uint32_t chunk : {300u, 64u, 8u, 1u}) {
      INFO(what << ", chunks of " << chunk);
      CHECK(run.hash(prompt, chunk, 24) == expected);
    }
  };
  check("all in slots", run_of_model::on_gpu(weights, true, everything));
  check("none in a slot", run_of_model::on_gpu(weights, true, nothing));
  check("a third in slots", run_of_model::on_gpu(weights, true, every_third));
  check("all but one in slots", run_of_model::on_gpu(weights, true, all_but_one));
  check("a third in slots, the store not pinned", run_of_model::on_gpu(weights, false, every_third));
}

TEST_CASE("rows of two sessions in one window do not see each other", "[gpu][stage]") {
  const auto weights = demo();
  const model::shape& dims = weights->dims();
  const auto first = noise(40, dims.n_vocab, 1), second = noise(40, dims.n_vocab, 2);
  const auto logits_of = [&](run_of_model run) {
    std::vector<float> all;
    for (std::uint32_t position = 0; position < 40; position += 4) {
      std::vector<kernels::window_row> rows;
      std::vector<token_id> tokens;
      for (std::uint32_t session : {0u, 1u}) {
        for (std::uint32_t i = 0; i < 4; ++i) {
          rows.push_back({session, position + i});
          tokens.push_back((session == 0 ? first : second)[position + i]);
        }
      }
      const std::vector<std::uint32_t> sampled{3, 7};
      std::vector<float> x(8 * dims.d_model);
      run.stage->embed(tokens, x.data());
      const auto ran = run.stage->run(rows, sampled, *run.table, x.data());
      if (!ran) FAIL(ran.error().text);
      all.insert(all.end(), run.stage->logits().begin(), run.stage->logits().end());
    }
    return all;
  };
  const auto expected = logits_of(run_of_model::on_host(weights));
  CHECK(logits_of(run_of_model::on_gpu(weights, true, everything)) == expected);
  CHECK(logits_of(run_of_model::on_gpu(weights, true, every_third)) == expected);
}

TEST_CASE("two stages on one GPU hand rows from one to the other, and pick what one stage picks", "[gpu][stage]") {
  const auto weights = demo();
  const model::shape& dims = weights->dims();
  const std::uint32_t middle = dims.n_layers / 2, n = 40;
  auto whole = run_of_model::on_host(weights);
  auto front = run_of_model::on_gpu(weights, true, every_third, 0, middle), back = run_of_model::on_gpu(weights, true, everything, middle);
  const auto tokens = noise(n, dims.n_vocab, 3);
  std::vector<kernels::window_row> rows;
  for (std::uint32_t i = 0; i < n; ++i) rows.push_back({0, i});
  const std::vector<std::uint32_t> sampled{n - 1};
  std::vector<float> x(n * dims.d_model), y(x.size());
  whole.stage->embed(tokens, x.data());
  front.stage->embed(tokens, y.data());
  REQUIRE(whole.stage->run(rows, sampled, *whole.table, x.data()));
  REQUIRE(front.stage->run(rows, sampled, *front.table, y.data()));
  REQUIRE(back.stage->run(rows, sampled, *back.table, y.data()));
  CHECK(std::ranges::equal(whole.stage->logits(), back.stage->logits()));
  for (std::uint32_t layer = 0; layer < dims.n_layers; ++layer) {
    const auto& of = layer < middle ? front : back;
    for (std::uint32_t row = 0; row < n; ++row) CHECK(std::ranges::equal(whole.stage->picked(layer, row), of.stage->picked(layer, row)));
  }
}

TEST_CASE("experts that move between windows change no bit", "[gpu][stage]") {
  const auto weights = demo();
  const model::shape& dims = weights->dims();
  const auto tokens = noise(60, dims.n_vocab, 5);
  const auto logits_of = [&](run_of_model run, bool moves) {
    std::vector<float> all, x(dims.d_model);
    for (std::uint32_t position = 0; position < tokens.size(); ++position) {
      if (moves) {
        for (std::uint32_t e = 0; e < dims.n_experts; ++e) {
          const expert_id expert{position % dims.n_layers, e};
          if ((e + position) % 2 == 0) run.table->restore(expert);
        }
      }
      const std::vector<kernels::window_row> rows{{0, position}};
      const std::vector<std::uint32_t> sampled{0};
      run.stage->embed({&tokens[position], 1}, x.data());
      const auto ran = run.stage->run(rows, sampled, *run.table, x.data());
      if (!ran) FAIL(ran.error().text);
      all.insert(all.end(), run.stage->logits().begin(), run.stage->logits().end());
    }
    return all;
  };
  CHECK(logits_of(run_of_model::on_gpu(weights, true, everything), true) == logits_of(run_of_model::on_host(weights), false));
}

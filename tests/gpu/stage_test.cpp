// Stages of real models on the GPU against the same on the CPU: every logit has the same bits, wherever the experts are and however rows come.
#include "kernels/gpu_module.hpp"
#include "model/gpu_stage.hpp"
#include "model/host_stage.hpp"
#include "model/logits_hash.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>
#include <numeric>

extern "C" void ebb_gpu_module_open(ebb::kernels::gpu_module_result& out);

using namespace ebb;

namespace {

constexpr std::uint32_t context = 1024;

std::shared_ptr<kernels::gpu> first_gpu() {
  kernels::gpu_module_result out;
  ebb_gpu_module_open(out);
  if (!out.driver) FAIL(out.driver.error().text);
  auto opened = (*out.driver)->open(0);
  if (!opened) FAIL(opened.error().text);
  return *opened;
}

std::shared_ptr<const model::checkpoint> demo() {
  const char* path = std::getenv("EBB_TEST_MODEL");
  auto opened = model::checkpoint::open(path != nullptr ? path : EBB_DEMO_MODEL);
  if (!opened) FAIL(opened.error().text);
  return *opened;
}

kernels::cpu::worker_pool& threads() {
  static kernels::cpu::worker_pool pool(std::max(1u, std::thread::hardware_concurrency()));
  return pool;
}

const kernels::cpu::ops& fastest() { return kernels::cpu::ops_for(kernels::cpu::available().back()); }

// Tokens of a text that means nothing.
std::vector<token_id> noise(std::uint32_t n, std::uint32_t n_vocab, std::uint32_t seed) {
  std::vector<token_id> tokens;
  std::uint32_t state = seed;
  for (std::uint32_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<token_id>((state >> 8) % n_vocab));
  }
  return tokens;
}

// A stage with its experts: those that `in_slot` says are copied to the GPU.
struct run_of_model {
  std::shared_ptr<const model::checkpoint> weights;
  std::shared_ptr<const model::expert_store> store;
  std::shared_ptr<kernels::gpu> gpu;
  std::unique_ptr<kernels::arena> arena;
  std::unique_ptr<model::expert_table> table;
  std::unique_ptr<model::stage> stage;

  static run_of_model on_host(std::shared_ptr<const model::checkpoint> weights, std::uint32_t sessions = 2) {
    run_of_model made;
    made.weights = weights;
    made.store = model::expert_store::mapped(weights);
    const model::stage_options options{0, weights->dims().n_layers, sessions, context, 512};
    auto stage = model::host_stage::make(weights, options, fastest(), threads());
    REQUIRE(stage);
    made.stage = std::move(*stage);
    made.table = std::make_unique<model::expert_table>(made.store->experts(), 0, weights->dims().n_layers);
    return made;
  }

  template <class InSlot>
  static run_of_model on_gpu(std::shared_ptr<const model::checkpoint> weights, bool pinned, InSlot in_slot, std::uint32_t layer_begin = 0,
                             std::uint32_t layer_end = ~0u) {
    run_of_model made;
    made.weights = weights;
    made.gpu = first_gpu();
    layer_end = std::min(layer_end, weights->dims().n_layers);
    made.store = model::expert_store::mapped(weights);
    if (pinned) {
      kernels::store_options how;
      how.name = "card 0";
      how.n_threads = 4;
      auto store = model::expert_store::pinned(weights, layer_begin, layer_end, made.gpu, how);
      if (!store) FAIL(store.error().text);
      REQUIRE((*store)->pinned());
      made.store = *store;
    }
    const model::stage_options options{layer_begin, layer_end, 2, context, 512};
    auto stage = model::gpu_stage::make(weights, options, made.store, made.gpu, fastest(), threads());
    if (!stage) FAIL(stage.error().text);
    made.stage = std::move(*stage);
    made.table = std::make_unique<model::expert_table>(made.store->experts(), layer_begin, layer_end);
    made.fill(in_slot, layer_begin, layer_end);
    return made;
  }

  template <class InSlot>
  void fill(InSlot in_slot, std::uint32_t layer_begin, std::uint32_t layer_end) {
    const model::catalog& experts = store->experts();
    const kernels::slot_layout slots(experts.expert_bytes_max(layer_begin, layer_end));
    const std::uint32_t n = (layer_end - layer_begin) * experts.n_experts();
    auto made = gpu->make_arena({64u << 20, slots.bytes_of(n)});
    if (!made) FAIL(made.error().text);
    arena = std::move(*made);
    for (kernels::segment_index segment = 0; segment < arena->layout().count(); ++segment) REQUIRE(arena->map(segment));
    std::uint32_t slot = 0;
    for (std::uint32_t layer = layer_begin; layer < layer_end; ++layer) {
      for (std::uint32_t e = 0; e < experts.n_experts(); ++e, ++slot) {
        const expert_id expert{layer, e};
        if (!in_slot(expert)) continue;
        std::uint64_t at = slots.offset_of({slot});
        table->place(expert, arena->base() + at);
        for (const auto which : {model::matrix::gate, model::matrix::up, model::matrix::down}) {
          const model::extent from = experts.at(expert, which);
          REQUIRE(arena->copy_in(at, {from.data, from.size_bytes}));
          at += from.size_bytes;
        }
      }
    }
  }

  // The hash of all logits of tokens read in chunks, then of `n_more` greedy ones. And the picks of every row.
  std::string hash(const std::vector<token_id>& tokens, std::uint32_t chunk, std::uint32_t n_more) {
    const model::shape& dims = weights->dims();
    model::logits_hash all;
    std::vector<float> x(std::size_t{chunk} * dims.d_model);
    std::vector<token_id> next;
    std::uint32_t position = 0;
    const auto run = [&](std::span<const token_id> some) {
      std::vector<kernels::window_row> rows;
      std::vector<std::uint32_t> sampled(some.size());
      std::iota(sampled.begin(), sampled.end(), 0u);
      for (std::uint32_t i = 0; i < some.size(); ++i) rows.push_back({1, position++});
      stage->embed(some, x.data());
      const auto ran = stage->run(rows, sampled, *table, x.data());
      if (!ran) FAIL(ran.error().text);
      const auto logits = stage->logits();
      REQUIRE(logits.size() == some.size() * dims.n_vocab);
      for (std::size_t i = 0; i < some.size(); ++i) all.add(logits.subspan(i * dims.n_vocab, dims.n_vocab));
      const auto last = logits.last(dims.n_vocab);
      next = {static_cast<token_id>(std::max_element(last.begin(), last.end()) - last.begin())};
    };
    for (std::size_t first = 0; first < tokens.size(); first += chunk) {
      run(std::span(tokens).subspan(first, std::min<std::size_t>(chunk, tokens.size() - first)));
    }
    for (std::uint32_t i = 0; i < n_more; ++i) {
      const token_id token = next[0];
      run({&token, 1});
    }
    return all.hex();
  }
};

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

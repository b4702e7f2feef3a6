// The adapter between a card and a GPU, on a GPU whose layers the CPU computes (support/host_gpu.hpp).
#include "model/gpu_stage.hpp"
#include "tests/model/support/demo_model.hpp"
#include "tests/model/support/host_gpu.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

namespace ebb::model {
namespace {

using test::demo_model;
using test::host_gpu;

constexpr std::uint32_t n_sessions = 2, context = 64;

const kernels::cpu::ops& fastest_ops() { return kernels::cpu::ops_for(kernels::cpu::available().back()); }

kernels::cpu::worker_pool& two_threads() {
  static kernels::cpu::worker_pool pool(2);
  return pool;
}

// A stage of the demo model on a GPU of its own, some of its experts in slots.
struct stage_on_gpu {
  std::shared_ptr<host_gpu> gpu;
  std::unique_ptr<gpu_stage> stage;
  expert_table table;
  std::vector<std::vector<std::byte>> slots;

  stage_on_gpu(std::uint32_t begin, std::uint32_t end)
      : gpu(std::make_shared<host_gpu>(demo_model(), begin, fastest_ops(), two_threads())), table(demo_model()->experts(), begin, end) {
    auto made = gpu_stage::make(demo_model(), {begin, end, n_sessions, context}, expert_store::mapped(demo_model()), gpu, fastest_ops(),
                                two_threads());
    REQUIRE(made);
    stage = std::move(*made);
  }

  void fill(expert_id expert) {
    std::vector<std::byte>& slot = slots.emplace_back();
    for (const matrix which : {matrix::gate, matrix::up, matrix::down}) {
      const extent from = demo_model()->experts().at(expert, which);
      slot.insert(slot.end(), from.data, from.data + from.size_bytes);
    }
    table.place(expert, slot.data());
  }
};

// Two sessions' rows in one window.
const std::vector<window_row> rows{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}};
const std::vector<token_id> tokens{17, 4, 911, 30, 2050};
const std::vector<std::uint32_t> sampled{2, 4};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace

TEST_CASE("a GPU measures once, before its first window and with every expert in the store, who shall serve its misses") {
  const std::uint32_t begin = 1, end = 3;
  stage_on_gpu made(begin, end);
  REQUIRE(made.gpu->state.chosen_by.size() == 1);
  const std::vector<kernels::expert_entry>& given = made.gpu->state.chosen_by.front();
  REQUIRE(given.size() == made.table.entries().size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CHECK_FALSE(given[i].in_slot);
    CHECK(given[i].matrix[0] == made.table.entries()[i].matrix[0]);
  }
  std::vector<float> x(rows.size() * demo_model()->dims().d_model);
  REQUIRE(made.stage->run(rows, {}, made.table, x.data()));
  CHECK(made.gpu->state.chosen_by.size() == 1);
}

TEST_CASE("two stages on GPUs, with some experts in slots, give the logits and picks of one host stage") {
  const shape& dims = demo_model()->dims();
  const std::uint32_t border = 2;
  stage_on_gpu first(0, border), last(border, dims.n_layers);
  for (std::uint32_t index = 0; index < dims.n_experts; index += 3) {
    first.fill({1, index});
    last.fill({3, index});
  }
  auto whole = host_stage::make(demo_model(), {0, dims.n_layers, n_sessions, context}, fastest_ops(), two_threads());
  REQUIRE(whole);
  const expert_table store(demo_model()->experts(), 0, dims.n_layers);

  std::vector<float> x(rows.size() * dims.d_model), expected_x(x.size());
  (*whole)->embed(tokens, expected_x.data());
  REQUIRE((*whole)->run(rows, sampled, store, expected_x.data()));
  first.stage->embed(tokens, x.data());
  REQUIRE(first.stage->run(rows, sampled, first.table, x.data()));
  CHECK(first.stage->logits().empty());
  REQUIRE(last.stage->run(rows, sampled, last.table, x.data()));
  CHECK(same_bits(x, expected_x));
  REQUIRE((*whole)->logits().size() == sampled.size() * dims.n_vocab);
  CHECK(same_bits(last.stage->logits(), (*whole)->logits()));
  for (std::uint32_t layer = 0; layer < dims.n_layers; ++layer) {
    const stage& of = layer < border ? *first.stage : *last.stage;
    for (std::uint32_t row = 0; row < rows.size(); ++row) CHECK(std::ranges::equal(of.picked(layer, row), (*whole)->picked(layer, row)));
  }
}

TEST_CASE("the logits of some rows are those that the same rows have when all are sampled") {
  const shape& dims = demo_model()->dims();
  const expert_table store(demo_model()->experts(), 0, dims.n_layers);
  const auto logits_of = [&](const std::vector<std::uint32_t>& wanted) {
    const auto all_rows = static_cast<std::uint32_t>(rows.size());
    auto made = host_stage::make(demo_model(), {0, dims.n_layers, n_sessions, context, all_rows}, fastest_ops(), two_threads());
    REQUIRE(made);
    std::vector<float> x(rows.size() * dims.d_model);
    (*made)->embed(tokens, x.data());
    REQUIRE((*made)->run(rows, wanted, store, x.data()));
    return std::vector<float>((*made)->logits().begin(), (*made)->logits().end());
  };
  const auto all = logits_of({0, 1, 2, 3, 4});
  const auto some = logits_of(sampled);
  REQUIRE(all.size() == rows.size() * dims.n_vocab);
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    CHECK(same_bits(std::span(some).subspan(i * dims.n_vocab, dims.n_vocab),
                    std::span(all).subspan(sampled[i] * dims.n_vocab, dims.n_vocab)));
  }
  CHECK(logits_of({}).empty());
}

TEST_CASE("a GPU is told the table's version, and what it may rely on only where that was said") {
  stage_on_gpu on(2, 3);
  const std::uint32_t n_experts = demo_model()->dims().n_experts;
  std::vector<float> x(demo_model()->dims().d_model);
  const window_row row{0, 0};
  const auto told = [&](window_hints hints = {}) {
    REQUIRE(on.stage->run({&row, 1}, {}, on.table, x.data(), hints));
    return *on.gpu->state.last;
  };
  for (std::uint32_t index = 0; index + 1 < n_experts; ++index) on.fill({2, index});
  const auto before = told();
  CHECK_FALSE(before.resident);
  on.fill({2, n_experts - 1});
  const auto full = told();
  CHECK_FALSE(full.resident);  // though every expert is in a slot
  CHECK(told({.fast_path = true}).resident);
  CHECK_FALSE(told({.fast_path = true}).link_busy);
  CHECK(told({.copies_under_way = true}).link_busy);
  CHECK(full.experts_version > before.experts_version);
  CHECK(told().experts_version == full.experts_version);
  on.table.restore({2, 0});
  CHECK_FALSE(told().resident);
  CHECK(told().experts_version > full.experts_version);
}

TEST_CASE("what a GPU is told of a stage is what the model's file says of its layers") {
  const auto weights = demo_model();
  const shape& dims = weights->dims();
  const auto middle = describe_stage(*weights, {1, 3, n_sessions, context, 7});
  CHECK(middle.shape.n_layers == 2);
  CHECK(middle.shape.d_ff == dims.d_ff);
  CHECK(middle.shape.top_k == dims.top_k);
  CHECK(middle.shape.n_sessions == n_sessions);
  CHECK(middle.shape.context == context);
  CHECK(middle.shape.rows_max == limits::window_rows_max);
  CHECK(middle.shape.sampled_max == 7);
  CHECK(middle.shape.rope_base == dims.rope_base);
  CHECK(middle.shape.rms_eps == dims.rms_eps);
  REQUIRE(middle.layers.size() == 2);
  CHECK(middle.layers[0].attn_norm == weights->layer(1).attn_norm.data());
  CHECK(middle.layers[1].attn_k.data == weights->layer(2).attn_k.data);
  CHECK(middle.layers[1].attn_output.n_cols == dims.n_heads * dims.head_dim);
  CHECK(middle.layers[1].router.data == weights->layer(2).router.data);
  CHECK(middle.layers[1].expert_formats == weights->experts().formats(2));
  CHECK(middle.output.norm == nullptr);
  const auto last = describe_stage(*weights, {dims.n_layers - 1, dims.n_layers, n_sessions, context, 7});
  CHECK(last.output.norm == weights->output_norm().data());
  CHECK(last.output.matrix.data == weights->output().data);
  CHECK(last.output.matrix.n_rows == dims.n_vocab);
}

TEST_CASE("a GPU that has no room for a stage, or fails while it runs one, is an error of the stage") {
  const auto gpu = std::make_shared<host_gpu>(demo_model(), 0, fastest_ops(), two_threads());
  gpu->state.refusal = error{errc::out_of_memory, "3 MiB are free"};
  const stage_options only{0, 1, n_sessions, context};
  const auto refused = gpu_stage::make(demo_model(), only, expert_store::mapped(demo_model()), gpu, fastest_ops(), two_threads());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::out_of_memory);

  stage_on_gpu on(0, 1);
  on.gpu->state.failure = error{errc::card_lost, "it fell off the bus"};
  std::vector<float> x(demo_model()->dims().d_model);
  const window_row row{0, 0};
  const auto ran = on.stage->run({&row, 1}, {}, on.table, x.data());
  REQUIRE_FALSE(ran);
  CHECK(ran.error().code == errc::card_lost);
  CHECK(ran.error().text == "it fell off the bus");
}

TEST_CASE("as many rows may be sampled as there are sessions, unless the options say otherwise") {
  stage_on_gpu on(0, 1);
  CHECK(on.stage->options().sampled_max == n_sessions);
  CHECK(on.stage->held_bytes() == 12345);
}

}  // namespace ebb::model

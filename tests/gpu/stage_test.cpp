// Stages of real models on the GPU against the same on the CPU: every logit has the same bits, wherever the experts are and however rows come.
#include "tests/gpu/run_of_model.hpp"
#include <cuda_runtime.h>

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
  auto without_fast_path = run_of_model::on_gpu(weights, true, everything);
  without_fast_path.hints.fast_path = false;
  check("all in slots, but looked for", std::move(without_fast_path));
  auto beside_copies = run_of_model::on_gpu(weights, true, every_third);
  beside_copies.hints.copies_under_way = true;
  check("a third in slots, while others are copied", std::move(beside_copies));
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
    const kernels::slot_layout slots(run.store->experts().expert_bytes_max(0, dims.n_layers));
    // Fills the slot that was expert `slot_of`'s at first with another expert.
    const auto put = [&](expert_id expert, expert_id slot_of) {
      std::uint64_t at = slots.offset_of({slot_of.layer * dims.n_experts + slot_of.index});
      const std::byte* const slot = run.arena->base() + at;
      for (const auto which : {model::matrix::gate, model::matrix::up, model::matrix::down}) {
        const model::extent from = run.store->experts().at(expert, which);
        REQUIRE(run.arena->copy_in(at, {from.data, from.size_bytes}));
        at += from.size_bytes;
      }
      run.table->place(expert, slot);
    };
    std::vector<float> all, x(dims.d_model);
    for (std::uint32_t position = 0; position < tokens.size(); ++position) {
      const std::uint32_t layer = position % dims.n_layers;
      for (std::uint32_t e = 0; moves && e + 1 < dims.n_experts; e += 2) {  // neighbours change places, or one leaves and the other takes its slot
        const expert_id one{layer, e}, other{layer, e + 1};
        run.table->restore(one);
        run.table->restore(other);
        put(other, one);
        if ((position / dims.n_layers) % 2 == 0) put(one, other);
      }
      const std::vector<kernels::window_row> rows{{0, position}};
      const std::vector<std::uint32_t> sampled{0};
      run.stage->embed({&tokens[position], 1}, x.data());
      const auto ran = run.stage->run(rows, sampled, *run.table, x.data(), {.fast_path = run.table->resident()});
      if (!ran) FAIL(ran.error().text);
      all.insert(all.end(), run.stage->logits().begin(), run.stage->logits().end());
    }
    return all;
  };
  CHECK(logits_of(run_of_model::on_gpu(weights, true, everything), true) == logits_of(run_of_model::on_host(weights), false));
}

TEST_CASE("a window does not wait for what is on its way into the cache", "[gpu][stage]") {
  constexpr std::size_t gib = std::size_t{1} << 30;
  const auto weights = demo();
  auto run = run_of_model::on_gpu(weights, true, everything);
  auto cache = first_gpu()->make_arena({64u << 20, gib});
  if (!cache) FAIL(cache.error().text);
  for (kernels::segment_index segment = 0; segment < (*cache)->layout().count(); ++segment) REQUIRE((*cache)->map(segment));
  std::byte* from = nullptr;
  REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&from), gib) == cudaSuccess);
  const auto ms_of = [](auto what) {
    const auto began = std::chrono::steady_clock::now();
    what();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  };
  const std::vector<kernels::window_row> rows{{0, 0}};
  const std::vector<std::uint32_t> sampled{0};
  std::vector<float> x(weights->dims().d_model, 0.5f);
  const auto window = [&] { REQUIRE(run.stage->run(rows, sampled, *run.table, x.data(), {.fast_path = true})); };
  window();
  for (int again = 0; again < 3; ++again) {
    double window_ms = 0;
    const double copies_ms = ms_of([&] {
      for (std::uint64_t at = 0; at < gib; at += gib / 256) REQUIRE((*cache)->begin_copy_in(at, {from + at, gib / 256}));
      window_ms = ms_of(window);
      REQUIRE((*cache)->finish_copies());
    });
    CHECK(window_ms < copies_ms / 2);
  }
  cache->reset();
  REQUIRE(cudaFreeHost(from) == cudaSuccess);
}

TEST_CASE("with no memory left for graphs, windows run without and give the same bits", "[gpu][stage][figures]") {
  const auto weights = demo();
  const auto prompt = noise(300, weights->dims().n_vocab, 9);
  const std::string expected = run_of_model::on_host(weights).hash(prompt, 3, 4);
  auto run = run_of_model::on_gpu(weights, true, every_third);
  std::vector<void*> taken;  // all that there is, in smaller and smaller pieces
  for (std::size_t piece = std::size_t{1} << 36; piece >= 4096; piece /= 2) {
    void* more = nullptr;
    while (cudaMalloc(&more, piece) == cudaSuccess) taken.push_back(more);
  }
  cudaGetLastError();
  const std::string found = run.hash(prompt, 3, 4);  // windows of three rows, and lengths beyond a chunk: graphs that were not captured at start
  for (void* piece : taken) cudaFree(piece);
  CHECK(found == expected);
}

TEST_CASE("graphs count in what a stage holds, and the least used go when there are more than a stage may keep", "[gpu][stage][figures]") {
  class computing_nothing final : public kernels::miss_pool {
   public:
    void compute(std::uint32_t, std::span<const kernels::miss>, const kernels::activations&, float*) override {}
  };
  const auto weights = demo();
  const model::shape& dims = weights->dims();
  const auto gpu = first_gpu();
  computing_nothing nobody;
  constexpr std::uint32_t sessions = limits::miss_rows_max;
  auto made = gpu->make_stage(model::describe_stage(*weights, {0, dims.n_layers, sessions, 2048, sessions}), nobody);
  if (!made) FAIL(made.error().text);
  kernels::gpu_stage& stage = **made;
  const model::expert_table table(weights->experts(), 0, dims.n_layers);
  std::vector<float> x(sessions * dims.d_model, 0.5f);
  const std::vector<std::uint32_t> sampled{0};
  const auto run = [&](std::uint32_t n, std::uint32_t position) {
    std::vector<kernels::window_row> rows;
    for (std::uint32_t session = 0; session < n; ++session) rows.push_back({session, position});
    const auto ran = stage.run({rows, sampled, table.entries(), table.version(), false}, x.data());
    if (!ran) FAIL(ran.error().text);
  };
  const std::uint32_t usual = stage.graphs();
  const std::uint64_t held_at_first = stage.held_bytes(), free_at_first = gpu->memory()->free_bytes;
  REQUIRE(usual > 0);
  for (std::uint32_t n = 1; n <= sessions; ++n) run(n, 256);  // a second chunk of positions
  CHECK(stage.graphs() == usual + sessions);
  CHECK(stage.held_bytes() - held_at_first <= free_at_first - gpu->memory()->free_bytes);
  for (const std::uint32_t position : {512u, 1024u}) {
    for (std::uint32_t n = 1; n <= sessions; ++n) {
      run(n, position);
      CHECK(stage.graphs() <= limits::graphs_max);
      CHECK(stage.held_bytes() <= held_at_first + limits::graphs_bytes_max);
    }
  }
  CHECK(stage.graphs() == limits::graphs_max);
  for (int again = 0; again < 3; ++again) run(1, 1024);  // known: nothing is captured, nothing dropped
  CHECK(stage.graphs() == limits::graphs_max);
}

TEST_CASE("a CPU that does not answer costs the card, not the process", "[gpu][stage][patience]") {
  class sleeping final : public kernels::miss_pool {
   public:
    void compute(std::uint32_t, std::span<const kernels::miss>, const kernels::activations&, float*) override {
      std::this_thread::sleep_for(std::chrono::seconds(2));
    }
  };
  const auto weights = demo();
  const model::shape& dims = weights->dims();
  const auto gpu = first_gpu();
  sleeping nobody;
  auto description = model::describe_stage(*weights, {0, dims.n_layers, 1, context, 1});
  description.store_pinned = false;  // so that the CPU is asked for all misses
  description.doorbell_timeout = std::chrono::milliseconds(200);
  auto stage = gpu->make_stage(description, nobody);
  if (!stage) FAIL(stage.error().text);
  const model::expert_table table(weights->experts(), 0, dims.n_layers);
  const std::vector<kernels::window_row> rows{{0, 0}};
  const std::vector<std::uint32_t> sampled{0};
  std::vector<float> x(dims.d_model, 0.5f);
  const kernels::stage_window window{rows, sampled, table.entries(), table.version(), false};
  for (int again = 0; again < 2; ++again) {
    const auto began = std::chrono::steady_clock::now();
    const auto ran = (*stage)->run(window, x.data());
    REQUIRE(!ran);
    CHECK(ran.error().code == errc::card_lost);
    CHECK_THAT(ran.error().text, Catch::Contains("200 ms") && Catch::Contains("in vain"));
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(again == 0 ? 20 : 1));
  }
  CHECK(first_gpu()->memory());
}

TEST_CASE("a shape that the kernels do not have is refused by what is wrong with it and with what to do", "[gpu][stage][patience]") {
  class idle final : public kernels::miss_pool {
    void compute(std::uint32_t, std::span<const kernels::miss>, const kernels::activations&, float*) override {}
  };
  const auto weights = demo();
  const auto gpu = first_gpu();
  idle nobody;
  const auto check_refused = [&](auto change, const char* names) {
    auto description = model::describe_stage(*weights, {0, weights->dims().n_layers, 1, context, 1});
    change(description.shape);
    const auto stage = gpu->make_stage(description, nobody);
    REQUIRE(!stage);
    CHECK(stage.error().code == errc::unsupported_format);
    CHECK_THAT(stage.error().text, Catch::Contains(names) && Catch::Contains("cards = [\"host\"]"));
  };
  check_refused([](auto& shape) { shape.head_dim = 80; }, "heads of 80 values");
  check_refused([](auto& shape) { shape.head_dim = 288; }, "heads of 288 values");
  check_refused([](auto& shape) { shape.n_experts = 513; }, "512 experts a layer");
  check_refused([](auto& shape) { shape.top_k = 33; }, "32 experts a token");
  check_refused([](auto& shape) { shape.d_model = 11'296; }, "11264 values");
}

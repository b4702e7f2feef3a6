// tests/gpu/run_of_model.hpp: a stage of a real model on the GPU or on the CPU, with its store and the experts that a test puts into slots.
#pragma once
#include "kernels/gpu_module.hpp"
#include "model/gpu_stage.hpp"
#include "model/host_stage.hpp"
#include "model/logits_hash.hpp"
#include "tests/where.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <thread>

extern "C" void ebb_gpu_module_open(ebb::kernels::gpu_module_result& out);

namespace ebb::test {

inline constexpr std::uint32_t context = 1024;

inline std::shared_ptr<kernels::gpu> first_gpu() {
  kernels::gpu_module_result out;
  ebb_gpu_module_open(out);
  if (!out.driver) FAIL(out.driver.error().text);
  auto opened = (*out.driver)->open(0);
  if (!opened) FAIL(opened.error().text);
  return *opened;
}

// The demo model, or the one that EBB_TEST_MODEL names.
inline std::shared_ptr<const model::checkpoint> demo() {
  auto opened = model::checkpoint::open(where("EBB_TEST_MODEL", where("EBB_DEMO_MODEL_PATH", EBB_DEMO_MODEL).c_str()));
  if (!opened) FAIL(opened.error().text);
  return *opened;
}

inline kernels::cpu::worker_pool& threads() {
  static kernels::cpu::worker_pool pool(std::max(1u, std::thread::hardware_concurrency()));
  return pool;
}

inline const kernels::cpu::ops& fastest() { return kernels::cpu::ops_for(kernels::cpu::available().back()); }

// Tokens of a text that means nothing.
inline std::vector<token_id> noise(std::uint32_t n, std::uint32_t n_vocab, std::uint32_t seed) {
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
  model::window_hints hints{.fast_path = true};  // the fast path only where every expert is in a slot

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
      const auto ran = stage->run(rows, sampled, *table, x.data(), {hints.fast_path && table->resident(), hints.copies_under_way});
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

}  // namespace ebb::test

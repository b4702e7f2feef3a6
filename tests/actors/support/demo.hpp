// tests/actors/support/demo.hpp: the demo model, opened once, what a card is made of, and the answers that it must give.
#pragma once
#include "actors/card.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include "model/host_stage.hpp"
#include "model/logits_hash.hpp"
#include "model/vocabulary.hpp"
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

namespace ebb::actors::test {

struct demo_model {
  std::shared_ptr<const model::checkpoint> weights;
  std::shared_ptr<const model::tokenizer> vocabulary;
};

inline const demo_model& demo() {
  static const demo_model opened = [] {
    auto weights = model::checkpoint::open(EBB_DEMO_MODEL);
    REQUIRE(weights);
    auto vocabulary = model::read_vocabulary((*weights)->file());
    REQUIRE(vocabulary);
    return demo_model{*weights, *vocabulary};
  }();
  return opened;
}

inline kernels::cpu::worker_pool& one_thread() {
  static kernels::cpu::worker_pool pool(1);
  return pool;
}

inline const kernels::cpu::ops& fastest_ops() { return kernels::cpu::ops_for(kernels::cpu::available().back()); }

// A card with every layer, as large as its cache of 24 MiB, in segments that slots lie across.
inline card_options whole_card(const demo_model& model = demo()) {
  return {.card = {0}, .layer_begin = 0, .layer_end = model.weights->dims().n_layers, .n_sessions = 4, .context = 256,
          .segment_bytes = 256 << 10, .card_bytes = 0, .reserve_mib = 0, .elastic = true};
}

inline std::unique_ptr<card> make_card(const card_options& options, clock_fn now = steady_clock()) {
  auto made = card::make(demo().weights, demo().vocabulary, options, fastest_ops(), one_thread(), std::move(now));
  REQUIRE(made);
  return std::move(*made);
}

inline std::shared_ptr<const session_order> greedy_order(std::string_view prompt, std::uint32_t n_tokens) {
  session_order order{demo().vocabulary->encode_prompt(prompt), {}};
  order.params.max_tokens = n_tokens;
  order.params.hash_logits = true;
  order.params.ignore_eos = true;
  return std::make_shared<const session_order>(std::move(order));
}

struct greedy_answer {
  std::vector<token_id> tokens;
  std::string logits_hash;
  std::vector<std::vector<expert_id>> picked;  // [positions]: the experts of all layers
};

// The answer by the plain forward pass, a row at a time, with every expert in the store.
inline greedy_answer plain_answer(const demo_model& model, std::string_view prompt, std::uint32_t n_tokens) {
  greedy_answer answer;
  const auto& weights = model.weights;
  const ebb::model::shape& dims = weights->dims();
  auto stage = ebb::model::host_stage::make(weights, {0, dims.n_layers, 1, 256}, fastest_ops(), one_thread());
  REQUIRE(stage);
  const ebb::model::expert_table store(weights->experts(), 0, dims.n_layers);
  std::vector<token_id> ids = model.vocabulary->encode_prompt(prompt);
  const std::size_t n_prompt = ids.size();
  ebb::model::logits_hash hash;
  std::vector<float> x(dims.d_model);
  const std::array<std::uint32_t, 1> only_row{0};
  for (std::uint32_t position = 0; answer.tokens.size() < n_tokens; ++position) {
    const std::array<ebb::model::window_row, 1> rows{{{0, position}}};
    (*stage)->embed({&ids[position], 1}, x.data());
    REQUIRE((*stage)->run(rows, only_row, store, x.data()));
    auto& picked = answer.picked.emplace_back();
    for (std::uint32_t layer = 0; layer < dims.n_layers; ++layer) {
      for (const std::uint32_t index : (*stage)->picked(layer, 0)) picked.push_back({layer, index});
    }
    if (position + 1 < n_prompt) continue;
    const auto logits = (*stage)->logits();
    hash.add(logits);
    answer.tokens.push_back(static_cast<token_id>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    ids.push_back(answer.tokens.back());
  }
  answer.logits_hash = hash.hex();
  return answer;
}

// The same of the demo model, computed once a prompt and length.
inline const greedy_answer& expected_answer(std::string_view prompt, std::uint32_t n_tokens) {
  static std::map<std::pair<std::string, std::uint32_t>, greedy_answer> known;
  const auto [found, fresh] = known.try_emplace({std::string(prompt), n_tokens});
  if (fresh) found->second = plain_answer(demo(), prompt, n_tokens);
  return found->second;
}

inline std::set<expert_id> residents_of(const card_memory& memory) {
  std::set<expert_id> all;
  const expert_range& experts = memory.cache().experts();
  for (std::uint32_t number = 0; number < experts.count(); ++number) {
    if (memory.cache().slot_of(experts.at(number))) all.insert(experts.at(number));
  }
  return all;
}

// Whether every expert, read from where the table says, is what the model's file holds.
inline bool reads_the_model(const card_memory& memory) {
  const model::catalog& store = demo().weights->experts();
  const expert_range& experts = memory.cache().experts();
  for (std::uint32_t number = 0; number < experts.count(); ++number) {
    for (const auto which : {model::matrix::gate, model::matrix::up, model::matrix::down}) {
      const model::extent original = store.at(experts.at(number), which);
      const std::byte* read = memory.table().at(experts.at(number)).matrix[static_cast<std::size_t>(which)];
      if (read != original.data && std::memcmp(read, original.data, original.size_bytes) != 0) return false;
    }
  }
  return true;
}

}  // namespace ebb::actors::test

// The whole forward pass against exact answers (float64 on the dequantised weights, by an independent program).
#include "kernels/cpu/ops.hpp"
#include "model/host_stage.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

using namespace ebb;
using nlohmann::json;

namespace {

const std::string golden_folder = std::string(EBB_TEST_DATA) + "/chapbook-q4_k_m";

std::shared_ptr<const model::checkpoint> demo() {
  static const auto opened = model::checkpoint::open(EBB_DEMO_MODEL);
  REQUIRE(opened);
  return *opened;
}

json reference() {
  std::ifstream file(golden_folder + "/reference.json");
  return json::parse(file);
}

std::vector<float> read_floats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// What a run gives for each position.
struct answer {
  std::vector<float> logits;                                 // [positions, n_vocab]
  std::vector<std::vector<std::vector<std::uint32_t>>> picked;  // [position][layer][rank]
};

// Runs ids from position 0 in windows of chunk_rows.
answer run(const std::vector<token_id>& ids, kernels::cpu::isa isa, std::size_t chunk_rows, unsigned n_threads = 2) {
  const auto weights = demo();
  const model::shape& dims = weights->dims();
  kernels::cpu::worker_pool pool(n_threads);
  auto stage = model::host_stage::make(weights, {0, dims.n_layers, 1, dims.context_length, limits::window_rows_max}, kernels::cpu::ops_for(isa), pool);
  REQUIRE(stage);
  const model::expert_table experts(weights->experts(), 0, dims.n_layers);
  answer all;
  all.logits.resize(ids.size() * dims.n_vocab);
  for (std::size_t first = 0; first < ids.size(); first += chunk_rows) {
    const std::size_t n_rows = std::min(chunk_rows, ids.size() - first);
    std::vector<model::window_row> rows;
    std::vector<std::uint32_t> numbers(n_rows);
    std::iota(numbers.begin(), numbers.end(), 0u);
    for (std::size_t i = 0; i < n_rows; ++i) rows.push_back({0, static_cast<std::uint32_t>(first + i)});
    std::vector<float> x(n_rows * dims.d_model);
    (*stage)->embed(std::span(ids).subspan(first, n_rows), x.data());
    REQUIRE((*stage)->run(rows, numbers, experts, x.data()));
    std::ranges::copy((*stage)->logits(), &all.logits[first * dims.n_vocab]);
    for (std::size_t row = 0; row < n_rows; ++row) {
      auto& of_row = all.picked.emplace_back();
      for (std::uint32_t layer = 0; layer < dims.n_layers; ++layer) {
        const auto ranks = (*stage)->picked(layer, static_cast<std::uint32_t>(row));
        of_row.emplace_back(ranks.begin(), ranks.end());
      }
    }
  }
  return all;
}

std::vector<token_id> ids_of(const json& prompt) {
  auto ids = prompt["prompt_ids"].get<std::vector<token_id>>();
  for (const token_id id : prompt["greedy_ids"]) ids.push_back(id);
  return ids;
}

std::vector<double> log_softmax(const float* logits, std::size_t n) {
  const double largest = *std::max_element(logits, logits + n);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::exp(logits[i] - largest);
  std::vector<double> log_p(n);
  for (std::size_t i = 0; i < n; ++i) log_p[i] = logits[i] - largest - std::log(sum);
  return log_p;
}

}  // namespace

TEST_CASE("the mean KL divergence to the exact logits is at most 0.001") {
  const json golden = reference();
  const std::size_t n_vocab = demo()->dims().n_vocab;
  for (const int number : {0, 1}) {
    const auto exact = read_floats(golden_folder + "/logits-" + std::to_string(number) + ".f32");
    const auto ids = ids_of(golden["prompts"][number]);
    REQUIRE(exact.size() == ids.size() * n_vocab);
    const answer ours = run(ids, kernels::cpu::available().back(), 64);
    double sum = 0;
    for (std::size_t position = 0; position < ids.size(); ++position) {
      const auto log_p = log_softmax(&exact[position * n_vocab], n_vocab);
      const auto log_q = log_softmax(&ours.logits[position * n_vocab], n_vocab);
      for (std::size_t token = 0; token < n_vocab; ++token) sum += std::exp(log_p[token]) * (log_p[token] - log_q[token]);
    }
    const double mean_kl = sum / static_cast<double>(ids.size());
    INFO("prompt " << number << ": mean KL divergence " << mean_kl);
    CHECK(mean_kl <= 0.001);
    CHECK(mean_kl >= 0);
  }
}

// The file holds all logits of prompts 0 and 1, and of every prompt the 8 largest at each position.
TEST_CASE("the largest logits of every prompt agree with the exact ones, and so does the top token where its margin is at least 0.2") {
  const json golden = reference();
  const std::size_t n_vocab = demo()->dims().n_vocab;
  double error_max = 0;
  for (const json& prompt : golden["prompts"]) {
    const auto ids = ids_of(prompt);
    const answer ours = run(ids, kernels::cpu::available().back(), 64);
    for (std::size_t position = 0; position < ids.size(); ++position) {
      const float* row = &ours.logits[position * n_vocab];
      const json& top_ids = prompt["top_ids"][position];
      const json& top_logits = prompt["top_logits"][position];
      for (std::size_t rank = 0; rank < top_ids.size(); ++rank) {
        error_max = std::max(error_max, std::fabs(row[top_ids[rank].get<std::size_t>()] - top_logits[rank].get<double>()));
      }
      const double margin = top_logits[0].get<double>() - top_logits[1].get<double>();
      const auto top = std::max_element(row, row + n_vocab) - row;
      INFO("position " << position << " of \"" << prompt["prompt"] << "\"");
      if (margin >= 0.2) CHECK(top == top_ids[0].get<std::ptrdiff_t>());
    }
  }
  INFO("largest error of a logit " << error_max);
  CHECK(error_max < 0.2);  // half the margin that must not flip on either side
}

TEST_CASE("the experts picked, in order of rank, are the exact ones at 99 percent of the tokens and layers or more") {
  const json golden = reference();
  std::size_t pairs = 0, same_order = 0;
  for (const json& prompt : golden["prompts"]) {
    const answer ours = run(prompt["prompt_ids"].get<std::vector<token_id>>(), kernels::cpu::available().back(), 64);
    for (std::size_t token = 0; token < ours.picked.size(); ++token) {
      for (std::size_t layer = 0; layer < ours.picked[token].size(); ++layer) {
        ++pairs;
        if (prompt["experts"][token][layer].get<std::vector<std::uint32_t>>() == ours.picked[token][layer]) ++same_order;
      }
    }
  }
  INFO(same_order << " of " << pairs);
  REQUIRE(pairs > 300);
  CHECK(static_cast<double>(same_order) >= 0.99 * static_cast<double>(pairs));
}

TEST_CASE("the mean negative log-likelihood of each held-out text is within 0.005 of the exact one") {
  const json golden = reference();
  const std::size_t n_vocab = demo()->dims().n_vocab;
  for (const auto& [name, text] : golden["held_out_text"].items()) {
    const auto ids = text["ids"].get<std::vector<token_id>>();
    const answer ours = run(ids, kernels::cpu::available().back(), 64);
    double sum = 0;
    for (std::size_t position = 0; position + 1 < ids.size(); ++position) {
      sum -= log_softmax(&ours.logits[position * n_vocab], n_vocab)[static_cast<std::size_t>(ids[position + 1])];
    }
    const double mean_nll = sum / static_cast<double>(ids.size() - 1);
    INFO(name << ": " << mean_nll << ", exactly " << text["mean_nll"].get<double>());
    CHECK(std::fabs(mean_nll - text["mean_nll"].get<double>()) <= 0.005);
  }
}

TEST_CASE("logits have the same bits for every chunk size, instruction set and number of threads") {
  const auto ids = ids_of(reference()["prompts"][2]);
  const answer expected = run(ids, kernels::cpu::isa::scalar, 64, 1);
  const auto same = [&](const answer& other) {
    return other.picked == expected.picked && std::memcmp(other.logits.data(), expected.logits.data(), expected.logits.size() * sizeof(float)) == 0;
  };
  for (const kernels::cpu::isa isa : kernels::cpu::available()) {
    for (const std::size_t chunk_rows : {std::size_t{1}, std::size_t{7}, std::size_t{32}, ids.size()}) {
      if (isa == kernels::cpu::isa::scalar && chunk_rows == 1) continue;  // slow, and says nothing that 7 does not
      INFO(to_string(isa) << ", chunks of " << chunk_rows);
      CHECK(same(run(ids, isa, chunk_rows, 1)));
      CHECK(same(run(ids, isa, chunk_rows, 3)));
    }
  }
}

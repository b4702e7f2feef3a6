// Experts computed in groups by several threads, and as the misses of a GPU, against one expert and one row at a time.
#include "model/expert_worker.hpp"
#include "config/limits.hpp"
#include "model/miss_pool.hpp"
#include "tests/model/support/demo_model.hpp"
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

namespace ebb::model {
namespace {

using test::demo_model;

constexpr std::uint32_t layer = 3, n_rows = 8;

row_buffer random_rows(const kernels::cpu::ops& ops, unsigned seed) {
  const std::uint32_t d_model = demo_model()->dims().d_model;
  std::mt19937 random(seed);
  std::normal_distribution<float> value;
  row_buffer rows(n_rows, d_model);
  for (std::uint32_t row = 0; row < n_rows; ++row) {
    for (std::uint32_t column = 0; column < d_model; ++column) rows.row(row)[column] = value(random);
    rows.quantise(ops, row);
  }
  return rows;
}

std::vector<expert_pair> random_pairs(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<expert_pair> pairs(n);
  for (auto& pair : pairs)
    pair = {static_cast<std::uint32_t>(random() % n_rows), static_cast<std::uint32_t>(random() % demo_model()->dims().n_experts)};
  return pairs;
}

// As the definition reads: the products of one row, in this thread.
std::vector<float> one_at_a_time(const kernels::cpu::ops& ops, const kernels::activations& x, std::span<const expert_pair> pairs) {
  const shape& dims = demo_model()->dims();
  const catalog& store = demo_model()->experts();
  std::vector<float> out(pairs.size() * dims.d_model);
  std::vector<float> gate(dims.d_ff), up(dims.d_ff);
  row_buffer hidden(1, dims.d_ff);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto product = [&](matrix which, const kernels::activations& of, const std::uint32_t* row, std::uint32_t n_outputs, float* y) {
      const kernels::weights w{store.at({layer, pairs[i].expert}, which).data, store.formats(layer)[static_cast<std::size_t>(which)],
                               n_outputs, of.n_cols};
      ops.matmul({.w = w, .x = of, .x_row = row, .n = 1, .row_end = n_outputs, .y = y, .y_stride = n_outputs});
    };
    product(matrix::gate, x, &pairs[i].row, dims.d_ff, gate.data());
    product(matrix::up, x, &pairs[i].row, dims.d_ff, up.data());
    ops.swiglu(gate.data(), up.data(), dims.d_ff, hidden.row(0));
    hidden.quantise(ops, 0);
    product(matrix::down, hidden.view(), nullptr, dims.d_model, &out[i * dims.d_model]);
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("experts computed in groups have the bits of one at a time, for every instruction set and number of threads") {
  const shape& dims = demo_model()->dims();
  const expert_table table(demo_model()->experts(), layer, layer + 1);
  const layer_experts experts{table.layer(layer), demo_model()->experts().formats(layer)};
  for (const kernels::cpu::isa isa : kernels::cpu::available()) {
    const kernels::cpu::ops& ops = kernels::cpu::ops_for(isa);
    const row_buffer rows = random_rows(ops, 1);
    for (const unsigned n_threads : {1u, 3u}) {
      kernels::cpu::worker_pool pool(n_threads);
      expert_worker worker(dims, 100, ops, pool);
      for (const std::size_t n_pairs : {1u, 2u, 33u, 100u}) {
        INFO(to_string(isa) << ", " << n_threads << " threads, " << n_pairs << " pairs");
        const auto pairs = random_pairs(n_pairs, static_cast<unsigned>(n_pairs));
        std::vector<float> out(n_pairs * dims.d_model);
        worker.compute(pairs, experts, rows.view(), out.data());
        CHECK(same_bits(out, one_at_a_time(ops, rows.view(), pairs)));
      }
    }
  }
}

TEST_CASE("a miss pool computes the misses of the stage's layer from the store, however many they are") {
  const shape& dims = demo_model()->dims();
  const kernels::cpu::ops& ops = kernels::cpu::ops_for(kernels::cpu::available().back());
  kernels::cpu::worker_pool threads(2);
  miss_pool pool(demo_model()->experts(), dims, 2, 5, ops, threads);
  const row_buffer rows = random_rows(ops, 2);
  const std::size_t room = std::size_t{limits::miss_rows_max} * dims.top_k;
  for (const std::size_t n_misses : {std::size_t{1}, room, room + 1, 3 * room + 5}) {
    const auto misses = random_pairs(n_misses, static_cast<unsigned>(n_misses));
    std::vector<float> out(n_misses * dims.d_model);
    pool.compute(layer - 2, misses, rows.view(), out.data());
    CHECK(same_bits(out, one_at_a_time(ops, rows.view(), misses)));
  }
}

TEST_CASE("no misses are computed without touching the result") {
  const kernels::cpu::ops& ops = kernels::cpu::ops_for(kernels::cpu::available().back());
  kernels::cpu::worker_pool threads(1);
  miss_pool pool(demo_model()->experts(), demo_model()->dims(), 0, 1, ops, threads);
  pool.compute(0, {}, random_rows(ops, 3).view(), nullptr);
}

}  // namespace ebb::model

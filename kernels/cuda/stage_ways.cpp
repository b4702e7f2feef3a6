// kernels/cuda/stage_ways.cpp: which of the experts that are in no slot the CPU computes, and which are copied.
#include "kernels/cuda/stage.hpp"
#include "config/assert.hpp"
#include "kernels/cuda/upload.hpp"
#include <algorithm>
#include <map>

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t ways_of_layer = doorbell_misses_max + 1;
using expert_formats = std::array<format, matrices_per_expert>;

}  // namespace

// Beside copies into the cache the CPU computes all that is missing: what a window copied then, it would take from them.
result<void> stage::use_ways(const stage_window& what) {
  const bool beside_copies = what.link_busy;
  if (!beside_copies && !ways_chosen_ && ways_version_ != what.experts_version) {
    if (auto chosen = choose_ways(what); !chosen) return chosen;
  }
  if (ways_beside_copies_ == beside_copies) return {};
  ways_beside_copies_ = beside_copies;
  stage_memory& m = *memory_;
  const std::size_t n = m.shape().n_layers * ways_of_layer;
  std::uint32_t* const ways = m.cpu_of_host + (beside_copies ? n : 0);
  for (std::size_t i = 0; beside_copies && i < n; ++i) ways[i] = static_cast<std::uint32_t>(i % ways_of_layer);
  upload(m.cpu_of, ways, n * sizeof *ways, stream_.get());
  return {};
}

// How many of a layer's missing experts the CPU computes while the others are copied: measured once for each kind of layer, by its formats. Neither way
// changes a bit. A kind that has too few misses to be measured takes the share of another.
result<void> stage::choose_ways(const stage_window& what) {
  ways_version_ = what.experts_version;
  stage_memory& m = *memory_;
  const stage_shape& shape = m.shape();
  constexpr std::uint32_t tried_max = 8;
  const std::uint32_t tried = std::min({tried_max, shape.n_experts, shape.top_k});
  std::map<expert_formats, std::vector<absent_experts>> kinds;
  for (std::uint32_t layer = 0; store_pinned_ && layer < shape.n_layers; ++layer) {
    absent_experts found{layer, {}};
    for (std::uint32_t e = 0; e < shape.n_experts && found.experts.size() < tried; ++e) {
      if (!what.experts[std::size_t{layer} * shape.n_experts + e].in_slot) found.experts.push_back(e);
    }
    if (found.experts.size() == tried) kinds[m.layers[layer].expert_formats].push_back(std::move(found));
  }
  ways_chosen_ = !store_pinned_ || !kinds.empty();  // with few misses the choice matters little; another residency may have more
  std::map<expert_formats, std::uint32_t> share_of;  // of `tried`
  for (const auto& [formats, layers] : kinds) {
    const auto best = best_share(what, layers, tried);
    if (!best) return fail(best.error());
    share_of[formats] = *best;
  }
  for (std::uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    const auto measured = share_of.find(m.layers[layer].expert_formats);
    std::uint32_t share = store_pinned_ ? 0 : tried;
    if (!share_of.empty()) share = (measured != share_of.end() ? measured : share_of.begin())->second;
    std::uint32_t* const ways = m.cpu_of_host + layer * ways_of_layer;
    for (std::uint32_t missing = 0; missing < ways_of_layer; ++missing) ways[missing] = (missing * share + tried / 2) / tried;
  }
  ways_beside_copies_.reset();
  return {};
}

// Of `tried` misses, how many the CPU computes at best. Every measurement takes another layer, whose experts no cache of the CPU holds.
result<std::uint32_t> stage::best_share(const stage_window& what, std::span<const absent_experts> layers, std::uint32_t tried) {
  std::size_t next = 0;
  std::vector<double> of_all;  // [on_cpu]: ms of all that were tried
  for (std::uint32_t on_cpu = 0; on_cpu <= tried; ++on_cpu) {
    std::array<double, 3> times{};
    for (double& each : times) {
      const auto& [layer, experts] = layers[next++ % layers.size()];
      const auto took_ms = ms_of(what, layer, std::span(experts).first(on_cpu), std::span(experts).subspan(on_cpu));
      if (!took_ms) return fail(took_ms.error());
      each = *took_ms;
    }
    std::sort(times.begin(), times.end());
    of_all.push_back(times[1]);
  }
  timing_.copy_ms_an_expert = of_all.front() / tried;
  timing_.cpu_ms_an_expert = of_all.back() / tried;
  // The times fall to the best and rise again, so its neighbours have a say: one lucky measurement decides nothing.
  const auto smoothed = [&](std::uint32_t n) { return of_all[n == 0 ? 0 : n - 1] + 2 * of_all[n] + of_all[std::min(n + 1, tried)]; };
  std::uint32_t best = 0;
  for (std::uint32_t on_cpu = 1; on_cpu <= tried; ++on_cpu) {
    if (smoothed(on_cpu) < smoothed(best)) best = on_cpu;
  }
  return best;
}

// Some experts of a layer by the CPU, while the others are copied to the spare places: each way slows the other, since both read RAM.
result<double> stage::ms_of(const stage_window& what, std::uint32_t number, std::span<const std::uint32_t> on_cpu, std::span<const std::uint32_t> copied) {
  stage_memory& m = *memory_;
  staging_list list{};
  list.count = static_cast<std::uint32_t>(copied.size());
  for (std::size_t i = 0; i < copied.size(); ++i) {
    const expert_entry& from = what.experts[std::size_t{number} * m.shape().n_experts + copied[i]];
    for (std::size_t which = 0; which < matrices_per_expert; ++which) list.from[i][which] = reinterpret_cast<const std::uint8_t*>(from.matrix[which]);
  }
  cudaMemcpyAsync(m.staging, &list, sizeof list, cudaMemcpyHostToDevice, stream_.get());
  const layer_on_device& layer = m.layers[number];
  const staging_place place{m.spare, m.spare_bytes, {layer.expert_bytes[0], layer.expert_bytes[1], layer.expert_bytes[2]}, m.spare_count};
  activations x;
  x.n_cols = m.shape().d_model;
  for (unsigned p = 0; p < 2; ++p) x.part[p] = {m.posted[p].q, m.posted[p].d, m.posted[p].sum};
  std::vector<miss> misses;
  for (const std::uint32_t expert : on_cpu) misses.push_back({0, expert});
  if (auto ready = await_stream("measuring misses"); !ready) return fail(ready.error());
  const auto began = clock::now();
  if (!copied.empty()) fetch_staged(m.staging, place, stream_.get());
  if (!misses.empty()) misses_.compute(number, misses, x, m.results);
  if (auto ended = await_stream("measuring misses"); !ended) return fail(ended.error());
  return ms_since(began);
}

}  // namespace ebb::kernels::cuda

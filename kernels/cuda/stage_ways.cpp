// kernels/cuda/stage_ways.cpp: which of the experts that are in no slot the CPU computes, and which are copied.
#include "kernels/cuda/stage.hpp"
#include "config/assert.hpp"
#include "kernels/cuda/upload.hpp"
#include <algorithm>
#include <numeric>

namespace ebb::kernels::cuda {

// Beside copies into the cache the CPU computes all that is missing: what a window copied then, it would take from them.
result<void> stage::use_ways(const stage_window& what) {
  const bool beside_copies = what.link_busy;
  if (!beside_copies && !ways_chosen_ && ways_version_ != what.experts_version) {
    if (auto chosen = choose_ways(what); !chosen) return chosen;
  }
  if (ways_beside_copies_ == beside_copies) return {};
  ways_beside_copies_ = beside_copies;
  stage_memory& m = *memory_;
  constexpr std::size_t n = doorbell_misses_max + 1;
  std::uint32_t* const ways = m.cpu_of_host + (beside_copies ? n : 0);
  if (beside_copies) std::iota(ways, ways + n, 0u);
  upload(m.cpu_of, ways, n * sizeof *ways, stream_.get());
  return {};
}

// How many of a layer's missing experts the CPU computes while the others are copied: measured once, on experts of this model, both ways at the
// same time as in a window. Neither way changes a bit.
result<void> stage::choose_ways(const stage_window& what) {
  ways_version_ = what.experts_version;
  stage_memory& m = *memory_;
  const stage_shape& shape = m.shape();
  constexpr std::uint32_t tried_max = 8;
  const std::uint32_t tried = std::min({tried_max, shape.n_experts, shape.top_k});
  const auto fill = [&](auto of) {
    for (std::uint32_t missing = 0; missing <= doorbell_misses_max; ++missing) m.cpu_of_host[missing] = of(missing);
    ways_beside_copies_.reset();
    return result<void>();
  };
  ways_chosen_ = true;
  if (!store_pinned_) return fill([](std::uint32_t missing) { return missing; });

  // Every measurement takes experts of another layer, which no cache of the CPU holds.
  std::vector<std::pair<std::uint32_t, std::vector<std::uint32_t>>> layers_with_misses;
  for (std::uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t e = 0; e < shape.n_experts && found.size() < tried; ++e) {
      if (!what.experts[std::size_t{layer} * shape.n_experts + e].in_slot) found.push_back(e);
    }
    if (found.size() == tried) layers_with_misses.emplace_back(layer, std::move(found));
  }
  if (layers_with_misses.empty()) {
    ways_chosen_ = false;  // with so few misses the choice matters little; another residency may have more
    return fill([](std::uint32_t) { return 0u; });
  }
  std::size_t next_layer = 0;
  const auto absent_experts = [&]() -> const auto& { return layers_with_misses[next_layer++ % layers_with_misses.size()]; };
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  std::vector<double> of_all;  // [on_cpu]: all that were tried
  for (std::uint32_t on_cpu = 0; on_cpu <= tried; ++on_cpu) {
    std::vector<double> times;
    for (int round = 0; round < 3; ++round) {
      const auto& [layer, absent] = absent_experts();
      const auto took_ms = ms_of(what, layer, std::span(absent).first(on_cpu), std::span(absent).subspan(on_cpu));
      if (!took_ms) return fail(took_ms.error());
      times.push_back(*took_ms);
    }
    of_all.push_back(median(std::move(times)));
  }
  // The times fall to the best and rise again, so its neighbours have a say: one lucky measurement decides nothing.
  const auto smoothed = [&](std::uint32_t n) { return of_all[n == 0 ? 0 : n - 1] + 2 * of_all[n] + of_all[std::min(n + 1, tried)]; };
  std::uint32_t best = 0;
  for (std::uint32_t on_cpu = 1; on_cpu <= tried; ++on_cpu) {
    if (smoothed(on_cpu) < smoothed(best)) best = on_cpu;
  }
  timing_.copy_ms_an_expert = of_all.front() / tried;
  timing_.cpu_ms_an_expert = of_all.back() / tried;
  return fill([&](std::uint32_t missing) { return (missing * best + tried / 2) / tried; });
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

// kernels/cuda/stage_ways.cpp: which of the experts that are in no slot the CPU computes, and which are copied.
#include "kernels/cuda/stage.hpp"
#include "config/assert.hpp"
#include <algorithm>

namespace ebb::kernels::cuda {

// How many of a layer's missing experts the CPU computes while the others are copied: measured once, on experts of this model. Neither way
// changes a bit. The times of the two ways overlap, so the larger of them counts.
result<void> stage::choose_ways(const stage_window& what) {
  ways_version_ = what.experts_version;
  stage_memory& m = *memory_;
  const stage_shape& shape = m.shape();
  constexpr std::uint32_t tried_max = 8;
  const std::uint32_t tried = std::min({tried_max, shape.n_experts, shape.top_k});
  const auto fill = [&](auto of) {
    for (std::uint32_t missing = 0; missing <= doorbell_misses_max; ++missing) m.cpu_of_host[missing] = of(missing);
    cudaMemcpyAsync(m.cpu_of, m.cpu_of_host, (doorbell_misses_max + 1) * sizeof(std::uint32_t), cudaMemcpyHostToDevice, stream_.get());
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
  constexpr int rounds = 5;
  std::vector<double> copying;
  for (int round = 0; round < rounds; ++round) {
    const auto& [layer, absent] = absent_experts();
    const auto took_ms = ms_of_copying(what, layer, absent);
    if (!took_ms) return fail(took_ms.error());
    copying.push_back(*took_ms / tried);
  }
  const double copy_ms = median(copying);
  activations x;
  x.n_cols = shape.d_model;
  for (unsigned p = 0; p < 2; ++p) x.part[p] = {m.posted[p].q, m.posted[p].d, m.posted[p].sum};
  std::vector<double> cpu_ms(1, 0.0);  // of so many experts
  for (std::uint32_t n = 1; n <= tried; ++n) {
    std::vector<double> computing;
    for (int round = 0; round < rounds; ++round) {
      const auto& [number, absent] = absent_experts();
      std::vector<miss> misses;
      for (std::uint32_t i = 0; i < n; ++i) misses.push_back({0, absent[i]});
      const auto began = clock::now();
      misses_.compute(number, misses, x, m.results);
      computing.push_back(ms_since(began));
    }
    cpu_ms.push_back(median(computing) + 0.01);  // and the doorbell
  }
  const auto cpu_time = [&](std::uint32_t n) { return n < cpu_ms.size() ? cpu_ms[n] : cpu_ms.back() * n / static_cast<double>(cpu_ms.size() - 1); };
  timing_.copy_ms_an_expert = copy_ms;
  timing_.cpu_ms_an_expert = cpu_ms.back() / static_cast<double>(tried);
  return fill([&](std::uint32_t missing) {
    std::uint32_t best = 0;
    for (std::uint32_t on_cpu = 1; on_cpu <= missing; ++on_cpu) {
      const auto time = [&](std::uint32_t n) { return std::max(cpu_time(n), (missing - n) * copy_ms); };
      if (time(on_cpu) < time(best)) best = on_cpu;
    }
    return best;
  });
}

// By the GPU, from the store to the spare places.
result<double> stage::ms_of_copying(const stage_window& what, std::uint32_t number, std::span<const std::uint32_t> experts) {
  stage_memory& m = *memory_;
  staging_list list{};
  list.count = static_cast<std::uint32_t>(experts.size());
  for (std::size_t i = 0; i < experts.size(); ++i) {
    const expert_entry& from = what.experts[std::size_t{number} * m.shape().n_experts + experts[i]];
    for (std::size_t which = 0; which < matrices_per_expert; ++which) list.from[i][which] = reinterpret_cast<const std::uint8_t*>(from.matrix[which]);
  }
  cudaMemcpyAsync(m.staging, &list, sizeof list, cudaMemcpyHostToDevice, stream_.get());
  const layer_on_device& layer = m.layers[number];
  const staging_place place{m.spare, m.spare_bytes, {layer.expert_bytes[0], layer.expert_bytes[1], layer.expert_bytes[2]}, m.spare_count};
  if (auto ready = await_stream("measuring copies"); !ready) return fail(ready.error());
  const auto began = clock::now();
  fetch_staged(m.staging, place, stream_.get());
  if (auto copied = await_stream("measuring copies"); !copied) return fail(copied.error());
  return ms_since(began);
}

}  // namespace ebb::kernels::cuda

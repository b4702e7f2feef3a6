// kernels/cuda/stage_ways.cpp: which of the experts that are in no slot the CPU computes, and which are copied.
#include "kernels/cuda/stage.hpp"
#include "config/assert.hpp"
#include "kernels/cuda/upload.hpp"
#include <algorithm>
#include <map>

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t ways_of_layer = doorbell_misses_max + 1;

}  // namespace

// Beside copies into the cache the CPU computes all that is missing: what a window copied then, it would take from them.
void stage::use_ways(bool beside_copies) {
  const bool all_on_cpu = beside_copies || !store_pinned_;
  bool stale = ways_all_on_cpu_ != all_on_cpu;
  if (!all_on_cpu) {
    for (auto& [formats, share] : shares_) stale = share.settle() || stale;
  }
  if (!stale) return;
  ways_all_on_cpu_ = all_on_cpu;
  stage_memory& m = *memory_;
  std::uint32_t* ways = m.cpu_of_host;
  for (std::uint32_t layer = 0; layer < m.shape().n_layers; ++layer) {
    const miss_share* const share = share_of(layer);
    for (std::uint32_t missing = 0; missing < ways_of_layer; ++missing) {
      *ways++ = all_on_cpu ? missing : share == nullptr ? 0 : share->on_cpu(missing);
    }
  }
  upload(m.cpu_of, m.cpu_of_host, m.shape().n_layers * ways_of_layer * sizeof *ways, stream_.get());
}

miss_share* stage::share_of(std::uint32_t layer) noexcept {
  const auto found = shares_.find(memory_->layers[layer].expert_formats);
  return found == shares_.end() ? nullptr : &found->second;
}

// While copies into the cache are on their way they slow the CPU too, which says nothing about other times.
void stage::learn_way(std::uint32_t layer, std::uint32_t n_misses, double ms) noexcept {
  if (ways_all_on_cpu_ == true) return;
  if (miss_share* const share = share_of(layer)) share->note(n_misses, ms);
}

// One share for each kind of layer, by its formats.
result<void> stage::choose_ways(std::span<const expert_entry> experts) {
  const stage_shape& shape = memory_->shape();
  EBB_ASSERT(experts.size() == std::size_t{shape.n_layers} * shape.n_experts);
  if (!store_pinned_ || !memory_->pairs_alone()) return {};
  if (lost_) return fail(*lost_);
  if (auto current = check(cudaSetDevice(device_->number()), "no context"); !current) return current;
  std::map<decltype(layer_on_device::expert_formats), std::vector<std::uint32_t>> kinds;
  for (std::uint32_t layer = 0; layer < shape.n_layers; ++layer) kinds[memory_->layers[layer].expert_formats].push_back(layer);
  const std::uint32_t tried = std::min({8u, shape.n_experts, shape.top_k});
  for (const auto& [formats, layers] : kinds) {
    const auto copied_ms = median_ms(experts, layers, tried, 0);
    if (!copied_ms) return fail(copied_ms.error());
    std::vector<double> computed_ms;
    for (std::uint32_t n = 1; n <= tried; ++n) {
      const auto of_n = median_ms(experts, layers, n, n);
      if (!of_n) return fail(of_n.error());
      computed_ms.push_back(*of_n);
    }
    timing_.copy_ms_an_expert = *copied_ms / tried;
    timing_.cpu_ms_an_expert = computed_ms.back() / tried;
    shares_.insert_or_assign(formats, miss_share(timing_.copy_ms_an_expert, std::move(computed_ms)));
  }
  ways_all_on_cpu_.reset();
  return {};
}

// Of three times that n experts took, `on_cpu` of them there. Every time takes another layer, whose experts no cache of the CPU holds.
result<double> stage::median_ms(std::span<const expert_entry> experts, std::span<const std::uint32_t> layers, std::uint32_t n, std::uint32_t on_cpu) {
  std::array<double, 3> times{};
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::uint32_t layer = layers[(3 * on_cpu + i) % layers.size()];
    const auto took_ms = ms_of(layer, experts.subspan(std::size_t{layer} * memory_->shape().n_experts, n), on_cpu);
    if (!took_ms) return fail(took_ms.error());
    times[i] = *took_ms;
  }
  std::sort(times.begin(), times.end());
  return times[1];
}

// The first experts of a layer by the CPU, while the others are copied to the spare places.
result<double> stage::ms_of(std::uint32_t number, std::span<const expert_entry> experts, std::uint32_t on_cpu) {
  stage_memory& m = *memory_;
  staging_list list{};
  for (const expert_entry& from : experts.subspan(on_cpu)) {
    EBB_ASSERT(!from.in_slot);
    for (std::size_t which = 0; which < matrices_per_expert; ++which) {
      list.from[list.count][which] = reinterpret_cast<const std::uint8_t*>(from.matrix[which]);
    }
    ++list.count;
  }
  cudaMemcpyAsync(m.staging, &list, sizeof list, cudaMemcpyHostToDevice, stream_.get());
  const layer_on_device& layer = m.layers[number];
  const staging_place place{m.spare, m.spare_bytes, {layer.expert_bytes[0], layer.expert_bytes[1], layer.expert_bytes[2]}, m.spare_count};
  activations x;
  x.n_cols = m.shape().d_model;
  for (unsigned p = 0; p < 2; ++p) x.part[p] = {m.posted[p].q, m.posted[p].d, m.posted[p].sum};
  std::vector<miss> misses;
  for (std::uint32_t expert = 0; expert < on_cpu; ++expert) misses.push_back({0, expert});
  if (auto ready = await_stream("measuring misses"); !ready) return fail(ready.error());
  const auto began = clock::now();
  if (list.count > 0) fetch_staged(m.staging, place, stream_.get());
  if (!misses.empty()) misses_.compute(number, misses, x, m.results);
  if (auto ended = await_stream("measuring misses"); !ended) return fail(ended.error());
  return ms_since(began);
}

}  // namespace ebb::kernels::cuda

// tests/actors/support/stage_memory.hpp: the cache of a stage of two layers (64 experts of the demo model) on a chosen arena.
#pragma once
#include "actors/card_memory.hpp"
#include "demo.hpp"
#include "failing_arena.hpp"
#include "kernels/memory/host_arena.hpp"
#include <random>

namespace ebb::actors::test {

inline constexpr std::uint32_t first_layer = 2, last_layer = 4;

inline std::uint32_t n_stage_experts() { return (last_layer - first_layer) * demo().weights->dims().n_experts; }

inline kernels::segment_layout stage_layout() {
  const kernels::slot_layout slots(demo().weights->experts().expert_bytes_max(first_layer, last_layer));
  return {.segment_bytes = 320 << 10, .full_bytes = slots.bytes_of(n_stage_experts())};  // about two and a half slots a segment
}

inline card_memory memory_on(std::unique_ptr<kernels::arena> arena) {
  return card_memory(model::expert_store::mapped(demo().weights), std::move(arena), {first_layer, last_layer, demo().weights->dims().n_experts, n_stage_experts()});
}

inline card_memory memory_on_host() {
  auto arena = kernels::host_arena::create({"test", stage_layout(), 0});
  REQUIRE(arena);
  return memory_on(std::move(*arena));
}

// A memory whose arena a test can make fail.
struct fragile_memory {
  failing_arena* arena = nullptr;  // owned by memory
  card_memory memory;

  fragile_memory() : fragile_memory(std::make_unique<failing_arena>(stage_layout())) {}

 private:
  explicit fragile_memory(std::unique_ptr<failing_arena> made) : arena(made.get()), memory(memory_on(std::move(made))) {}
};

// Where the first `segments` of them end.
inline std::uint64_t border(kernels::segment_index segments) {
  const auto layout = stage_layout();
  return std::min(segments * layout.segment_bytes, layout.full_bytes);
}

// The picks of a window; low numbers are used more.
inline void use_some(card_memory& memory, std::mt19937& random) {
  const expert_range& experts = memory.cache().experts();
  for (int use = 0; use < 12; ++use) {
    const auto number = std::min(random() % experts.count(), random() % experts.count());
    memory.note(experts.at(static_cast<std::uint32_t>(number)), static_cast<double>(1 + random() % 3));
  }
  memory.end_window();
}

}  // namespace ebb::actors::test

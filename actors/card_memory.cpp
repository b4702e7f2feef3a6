#include "actors/card_memory.hpp"
#include "config/assert.hpp"

namespace ebb::actors {
namespace {

expert_range range_of(const card_memory_options& options) { return {options.layer_begin, options.layer_end, options.n_experts}; }

}  // namespace

card_memory::card_memory(std::shared_ptr<const model::expert_store> store, std::unique_ptr<kernels::arena> arena,
                         const card_memory_options& options)
    : store_(std::move(store)),
      arena_(std::move(arena)),
      slots_(store_->experts().expert_bytes_max(options.layer_begin, options.layer_end)),
      cache_(range_of(options), options.slots_full),
      heat_(range_of(options), options.heat_half_life_windows),
      table_(store_->experts(), options.layer_begin, options.layer_end) {
  EBB_ASSERT(arena_->layout().full_bytes == slots_.bytes_of(options.slots_full));
  published_checksum_ = table_.checksum();
}

void card_memory::note_published() noexcept {
#if defined(EBB_DEBUG_ASSERTS)
  published_checksum_ = table_.checksum();
#endif
}

const std::byte* card_memory::address_of(slot_id slot) const noexcept { return arena_->base() + slots_.offset_of(slot); }

result<void> card_memory::begin_copy_from_store(const cache_fill& step) {
  std::uint64_t offset = slots_.offset_of(step.slot);
  if (const auto whole = store_->experts().in_one_piece(step.expert)) return arena_->begin_copy_in(offset, {whole->data, whole->size_bytes});
  for (const auto which : {model::matrix::gate, model::matrix::up, model::matrix::down}) {
    const model::extent from = store_->experts().at(step.expert, which);
    if (auto begun = arena_->begin_copy_in(offset, {from.data, from.size_bytes}); !begun) return begun;
    offset += from.size_bytes;
  }
  return {};
}

void card_memory::evict(expert_id expert) noexcept {
  table_.restore(expert);
  cache_.evict(expert);
  note_published();
}

result<void> card_memory::move(std::span<const cache_move> steps) {
  result<void> outcome;
  std::vector<cache_move> begun;
  begun.reserve(steps.size());
  for (const cache_move& step : steps) {
    auto copying = arena_->begin_copy_within(slots_.offset_of(step.from), slots_.offset_of(step.to), slots_.slot_bytes());
    if (copying) begun.push_back(step);
    else if (outcome) outcome = std::move(copying);
  }
  if (auto copied = arena_->finish_copies(); !copied) return outcome ? copied : outcome;
  for (const cache_move& step : begun) {
    cache_.move(step.expert, step.to);
    table_.place(step.expert, address_of(step.to));
  }
  if (!begun.empty()) note_published();
  return outcome;
}

result<void> card_memory::fill(std::span<const cache_fill> steps) {
  std::size_t begun = 0;
  const result<void> outcome = begin_fill(steps, begun);
  if (auto ended = end_fill(steps.first(begun)); !ended) return outcome ? ended : outcome;
  return outcome;
}

result<void> card_memory::begin_fill(std::span<const cache_fill> steps, std::size_t& begun) {
  result<void> outcome;
  for (begun = 0; begun < steps.size() && (outcome = begin_copy_from_store(steps[begun])); ++begun) {}
  return outcome;
}

result<void> card_memory::end_fill(std::span<const cache_fill> begun) {
  if (auto copied = arena_->finish_copies(); !copied) return copied;
  for (const cache_fill& step : begun) {
    cache_.place(step.expert, step.slot);
    table_.place(step.expert, address_of(step.slot));
  }
  if (!begun.empty()) note_published();
  return {};
}

result<void> card_memory::swap(std::span<const cache_swap> steps) {
  std::vector<cache_fill> fills;
  fills.reserve(steps.size());
  for (const cache_swap& step : steps) {
    evict(step.out);
    fills.push_back({step.in, step.slot});
  }
  return fill(fills);
}

// A slot that reaches into the segment must have left the cache before: a window could still read it.
result<void> card_memory::unmap(kernels::segment_index segment) {
  EBB_ASSERT(slots_.bytes_of(cache_.slots_usable()) <= arena_->layout().begin_of(segment));
  return arena_->unmap(segment);
}

bool card_memory::consistent() const noexcept {
  if (!arena_->is_mapped(0, slots_.bytes_of(cache_.slots_usable()))) return false;
  const expert_range& experts = cache_.experts();
  for (std::uint32_t number = 0; number < experts.count(); ++number) {
    const expert_id expert = experts.at(number);
    const auto slot = cache_.slot_of(expert);
    const auto& entry = table_.at(expert);
    const std::byte* expected = slot ? address_of(*slot) : store_->experts().at(expert, model::matrix::gate).data;
    if (entry.in_slot != slot.has_value()) return false;
    if (entry.matrix[0] != expected) return false;
    if (slot && slot->value >= cache_.slots_usable()) return false;
  }
  return true;
}

}  // namespace ebb::actors

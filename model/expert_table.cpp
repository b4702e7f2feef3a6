#include "model/expert_table.hpp"
#include "config/assert.hpp"
#include <xxhash.h>

namespace ebb::model {

expert_table::expert_table(const catalog& store, std::uint32_t layer_begin, std::uint32_t layer_end)
    : store_(&store), layer_begin_(layer_begin), layer_end_(layer_end) {
  EBB_ASSERT(layer_begin < layer_end);
  EBB_ASSERT(layer_end <= store.n_layers());
  entries_.reserve(std::size_t{layer_end - layer_begin} * store.n_experts());
  for (std::uint32_t number = layer_begin; number < layer_end; ++number) {
    for (std::uint32_t index = 0; index < store.n_experts(); ++index) entries_.push_back(in_store({number, index}));
  }
}

std::span<const kernels::expert_entry> expert_table::layer(std::uint32_t layer) const noexcept {
  EBB_ASSERT(layer >= layer_begin_);
  EBB_ASSERT(layer < layer_end_);
  return std::span(entries_).subspan(std::size_t{layer - layer_begin_} * store_->n_experts(), store_->n_experts());
}

std::size_t expert_table::index_of(expert_id expert) const noexcept {
  EBB_DASSERT(expert.layer >= layer_begin_);
  EBB_DASSERT(expert.layer < layer_end_);
  EBB_DASSERT(expert.index < store_->n_experts());
  return std::size_t{expert.layer - layer_begin_} * store_->n_experts() + expert.index;
}

kernels::expert_entry expert_table::in_store(expert_id expert) const noexcept {
  kernels::expert_entry where{};
  for (std::size_t which = 0; which < matrices_per_expert; ++which) where.matrix[which] = store_->at(expert, static_cast<matrix>(which)).data;
  return where;
}

void expert_table::change(expert_id expert, const kernels::expert_entry& next) noexcept {
  kernels::expert_entry& where = entries_[index_of(expert)];
  in_slots_ = in_slots_ - where.in_slot + next.in_slot;
  where = next;
  ++version_;
}

void expert_table::place(expert_id expert, const std::byte* slot) noexcept {
  kernels::expert_entry where{.matrix = {}, .in_slot = true};
  for (std::size_t which = 0; which < matrices_per_expert; ++which) {
    where.matrix[which] = slot;
    slot += store_->at(expert, static_cast<matrix>(which)).size_bytes;
  }
  change(expert, where);
}

void expert_table::restore(expert_id expert) noexcept { change(expert, in_store(expert)); }

std::uint64_t expert_table::checksum() const noexcept {
  std::uint64_t sum = 0;
  for (const kernels::expert_entry& where : entries_) {
    const std::array<std::uint64_t, 2> said{reinterpret_cast<std::uintptr_t>(where.matrix[0]), where.in_slot};
    sum = XXH3_64bits_withSeed(said.data(), sizeof said, sum);
  }
  return sum;
}

}  // namespace ebb::model

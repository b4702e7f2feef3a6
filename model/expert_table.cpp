#include "model/expert_table.hpp"
#include "config/assert.hpp"
#include <xxhash.h>

namespace ebb::model {

expert_table::expert_table(const catalog& store, std::uint32_t layer_begin, std::uint32_t layer_end)
    : store_(&store), layer_begin_(layer_begin), layer_end_(layer_end) {
  EBB_ASSERT(layer_begin < layer_end);
  EBB_ASSERT(layer_end <= store.n_layers());
  entries_.resize(std::size_t{layer_end - layer_begin} * store.n_experts());
  for (std::uint32_t layer = layer_begin; layer < layer_end; ++layer) {
    for (std::uint32_t index = 0; index < store.n_experts(); ++index) restore({layer, index});
  }
}

std::size_t expert_table::index_of(expert_id expert) const noexcept {
  EBB_DASSERT(expert.layer >= layer_begin_);
  EBB_DASSERT(expert.layer < layer_end_);
  EBB_DASSERT(expert.index < store_->n_experts());
  return std::size_t{expert.layer - layer_begin_} * store_->n_experts() + expert.index;
}

void expert_table::place(expert_id expert, const std::byte* slot) noexcept {
  entry& where = entries_[index_of(expert)];
  for (std::size_t which = 0; which < matrices_per_expert; ++which) {
    where.matrix[which] = slot;
    slot += store_->at(expert, static_cast<matrix>(which)).size_bytes;
  }
  where.in_slot = true;
}

void expert_table::restore(expert_id expert) noexcept {
  entry& where = entries_[index_of(expert)];
  for (std::size_t which = 0; which < matrices_per_expert; ++which) {
    where.matrix[which] = store_->at(expert, static_cast<matrix>(which)).data;
  }
  where.in_slot = false;
}

std::uint64_t expert_table::checksum() const noexcept {
  std::uint64_t sum = 0;
  for (const entry& where : entries_) {
    const std::array<std::uint64_t, 2> said{reinterpret_cast<std::uintptr_t>(where.matrix[0]), where.in_slot};
    sum = XXH3_64bits_withSeed(said.data(), sizeof said, sum);
  }
  return sum;
}

}  // namespace ebb::model

// model/expert_table.hpp: for every expert of a stage, where its matrices are to be read from: a slot of the cache or the store.
//
// This is the published residency as a window reads it. Only the card that owns it writes it, between two windows; every entry is
// valid at any time, so an expert that is not in a slot costs speed and never an answer.
#pragma once
#include "config/ids.hpp"
#include "kernels/expert_entry.hpp"
#include "model/catalog.hpp"
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ebb::model {

class expert_table {
 public:
  // All experts of layers [layer_begin, layer_end) in the store. The catalog must outlive the table.
  expert_table(const catalog& store, std::uint32_t layer_begin, std::uint32_t layer_end);

  const kernels::expert_entry& at(expert_id expert) const noexcept { return entries_[index_of(expert)]; }
  std::span<const kernels::expert_entry> entries() const noexcept { return entries_; }  // [layers of the stage, n_experts]
  std::span<const kernels::expert_entry> layer(std::uint32_t layer) const noexcept;     // [n_experts]; pre: of the stage (asserts)

  // Points an expert at a slot that holds its three matrices one behind the other, gate first.
  void place(expert_id expert, const std::byte* slot) noexcept;
  // Points an expert back at the store.
  void restore(expert_id expert) noexcept;

  // Grows with every change; names one table.
  std::uint64_t version() const noexcept { return version_; }
  // Whether every expert is in a slot.
  bool resident() const noexcept { return in_slots_ == entries_.size(); }

  // A sum over all entries that names which expert is read from which address; equal tables, equal sums.
  std::uint64_t checksum() const noexcept;

  std::uint32_t layer_begin() const noexcept { return layer_begin_; }
  std::uint32_t layer_end() const noexcept { return layer_end_; }

 private:
  std::size_t index_of(expert_id expert) const noexcept;
  kernels::expert_entry in_store(expert_id expert) const noexcept;
  void change(expert_id expert, const kernels::expert_entry& next) noexcept;

  const catalog* store_;
  std::uint32_t layer_begin_;
  std::uint32_t layer_end_;
  std::vector<kernels::expert_entry> entries_;  // [layers of the stage, n_experts]
  std::size_t in_slots_ = 0;
  std::uint64_t version_ = 0;
};

}  // namespace ebb::model

// model/expert_table.hpp: for every expert of a stage, where its matrices are to be read from: a slot of the cache or the store.
//
// This is the published residency as a window reads it. Only the card that owns it writes it, between two windows; every entry is
// valid at any time, so an expert that is not in a slot costs speed and never an answer.
#pragma once
#include "config/ids.hpp"
#include "model/catalog.hpp"
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace ebb::model {

class expert_table {
 public:
  struct entry {
    std::array<const std::byte*, matrices_per_expert> matrix;
    bool in_slot;
  };

  // All experts of layers [layer_begin, layer_end) in the store. The catalog must outlive the table.
  expert_table(const catalog& store, std::uint32_t layer_begin, std::uint32_t layer_end);

  const entry& at(expert_id expert) const noexcept { return entries_[index_of(expert)]; }

  // Points an expert at a slot that holds its three matrices one behind the other, gate first.
  void place(expert_id expert, const std::byte* slot) noexcept;
  // Points an expert back at the store.
  void restore(expert_id expert) noexcept;

  // A sum over all entries that names which expert is read from which address; equal tables, equal sums.
  std::uint64_t checksum() const noexcept;

  std::uint32_t layer_begin() const noexcept { return layer_begin_; }
  std::uint32_t layer_end() const noexcept { return layer_end_; }

 private:
  std::size_t index_of(expert_id expert) const noexcept;

  const catalog* store_;
  std::uint32_t layer_begin_;
  std::uint32_t layer_end_;
  std::vector<entry> entries_;  // [layers of the stage, n_experts]
};

}  // namespace ebb::model

// model/expert_store.hpp: the store of a card: the catalog of its experts and the memory behind it, which is the mapped file, or a copy in
// memory that GPUs read at full speed.
//
// Immutable once made, so any thread may read it; shared by whatever reads experts of the card.
#pragma once
#include "kernels/memory/pinned_store.hpp"
#include "model/checkpoint.hpp"
#include <memory>
#include <string>

namespace ebb::model {

class expert_store {
 public:
  // The experts as the mapped file has them. Takes no memory.
  static std::shared_ptr<const expert_store> mapped(std::shared_ptr<const checkpoint> weights);

  // A copy of the experts of layers [layer_begin, layer_end), each in one piece as in a slot, pinned by `gpu`; other layers are read from the mapped file.
  // Errors: those of kernels::pinned_store::read.
  static result<std::shared_ptr<const expert_store>> pinned(std::shared_ptr<const checkpoint> weights, std::uint32_t layer_begin,
                                                            std::uint32_t layer_end, std::shared_ptr<kernels::gpu> gpu,
                                                            const kernels::store_options& options);

  const catalog& experts() const noexcept { return experts_; }

  // A GPU reads it at full speed. Where that was asked for and refused, the warning says what it costs and the way out.
  bool pinned() const noexcept { return copy_ && copy_->pinned(); }
  std::string warning() const { return copy_ ? copy_->warning() : ""; }
  std::uint64_t held_bytes() const noexcept { return copy_ ? copy_->held_bytes() : 0; }  // beside the mapped file

 private:
  expert_store(std::shared_ptr<const checkpoint> weights, catalog experts, std::unique_ptr<kernels::pinned_store> copy);

  std::shared_ptr<const checkpoint> weights_;  // keeps the file mapped
  catalog experts_;
  std::unique_ptr<kernels::pinned_store> copy_;
};

}  // namespace ebb::model

// model/catalog.hpp: where each expert's weights lie in the store.
//
// An expert is three matrices, row-major, in the file's own quantisation:
//   gate [d_ff, d_model]    up [d_ff, d_model]    down [d_model, d_ff]
// Built once from an opened file, immutable afterwards, so any thread may read it. A store elsewhere has a catalog of its own, moved
// from that of the file.
#pragma once
#include "config/ids.hpp"
#include "config/result.hpp"
#include "kernels/expert_entry.hpp"
#include "kernels/format.hpp"
#include "model/architecture.hpp"
#include "model/gguf.hpp"
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ebb::model {

using kernels::matrices_per_expert;
enum class matrix : std::uint8_t { gate, up, down };

// Where one matrix of an expert lies.
struct extent {
  const std::byte* data;     // in the mapped file, or a copy of it
  std::uint64_t size_bytes;  // as stored (quantised), > 0
};

// The types of a layer's three expert tensors; all experts of a layer share them.
using layer_formats = std::array<kernels::format, matrices_per_expert>;

// Where the experts of a layer lie: the three matrices of expert 0, and how far it is from each to that of the next expert.
struct layer_place {
  std::array<const std::byte*, matrices_per_expert> base;
  std::array<std::uint64_t, matrices_per_expert> stride_bytes;
};

class catalog {
 public:
  // Errors: missing_key (a tensor is absent), corrupt (its shape contradicts the keys), unsupported_format (no kernels for its type).
  static result<catalog> make(const gguf& file, const architecture& family, const shape& dims);

  // The same experts, those of layers [layer_begin, layer_begin + places.size()) at other addresses. Pre: such layers (asserts).
  catalog moved(std::uint32_t layer_begin, std::span<const layer_place> places) const;

  // Pre: `expert` is in the model; a wrong id is the caller's bug and asserts. O(1), no allocation.
  extent at(expert_id expert, matrix which) const noexcept;
  const layer_formats& formats(std::uint32_t layer) const noexcept;
  // The three matrices, gate first, where they lie one behind the other, as in a slot: then one copy moves them.
  std::optional<extent> in_one_piece(expert_id expert) const noexcept;
  // All experts' matrices of one kind in a layer: a whole tensor. Pre: they lie one behind the other, as in a file (asserts).
  extent tensor(std::uint32_t layer, matrix which) const noexcept;

  // Bytes of one expert of a layer, its three matrices together.
  std::uint64_t expert_bytes(std::uint32_t layer) const noexcept;
  // The largest of them over layers [begin, end): what a slot must hold.
  std::uint64_t expert_bytes_max(std::uint32_t layer_begin, std::uint32_t layer_end) const noexcept;

  std::uint32_t n_layers() const noexcept;
  std::uint32_t n_experts() const noexcept;

 private:
  struct layer_tensors {
    layer_formats formats;
    std::array<std::uint64_t, matrices_per_expert> size_bytes;  // of one expert's matrix
    layer_place place;
  };
  static result<layer_tensors> find_layer(const gguf& file, const architecture& family, const shape& dims, std::uint32_t index);

  std::vector<layer_tensors> layers_;
  std::uint32_t n_experts_ = 0;
};

}  // namespace ebb::model

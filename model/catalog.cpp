#include "model/catalog.hpp"
#include "config/assert.hpp"
#include "model/tensor_checks.hpp"
#include <algorithm>
#include <numeric>
#include <string>

namespace ebb::model {

result<catalog> catalog::make(const gguf& file, const architecture& family, const shape& dims) {
  catalog out;
  out.n_experts_ = dims.n_experts;
  for (std::uint32_t index = 0; index < dims.n_layers; ++index) {
    const auto layer = find_layer(file, family, dims, index);
    if (!layer) return fail(layer.error());
    out.layers_.push_back(*layer);
  }
  return out;
}

result<catalog::layer_tensors> catalog::find_layer(const gguf& file, const architecture& family, const shape& dims, std::uint32_t index) {
  struct wanted {
    matrix which;
    std::string_view name;
    std::uint64_t n_cols, n_rows;
  };
  const wanted matrices[matrices_per_expert] = {
      {matrix::gate, family.layer.gate_experts, dims.d_model, dims.d_ff},
      {matrix::up, family.layer.up_experts, dims.d_model, dims.d_ff},
      {matrix::down, family.layer.down_experts, dims.d_ff, dims.d_model},
  };
  layer_tensors out{};
  for (const auto& [which, name, n_cols, n_rows] : matrices) {
    const auto tensor = require_tensor_of(file, layer_tensor_name(index, name), {n_cols, n_rows, dims.n_experts});
    if (!tensor) return fail(tensor.error());
    const auto place = static_cast<std::size_t>(which);
    out.formats[place] = (*tensor)->format;
    out.size_bytes[place] = (*tensor)->size_bytes / dims.n_experts;
    out.place.base[place] = (*tensor)->data;
    out.place.stride_bytes[place] = out.size_bytes[place];
  }
  return out;
}

catalog catalog::moved(std::uint32_t layer_begin, std::span<const layer_place> places) const {
  EBB_ASSERT(layer_begin + places.size() <= layers_.size());
  catalog out = *this;
  for (std::size_t i = 0; i < places.size(); ++i) out.layers_[layer_begin + i].place = places[i];
  return out;
}

extent catalog::at(expert_id expert, matrix which) const noexcept {
  EBB_ASSERT(expert.layer < layers_.size());
  EBB_ASSERT(expert.index < n_experts_);
  const layer_tensors& layer = layers_[expert.layer];
  const auto place = static_cast<std::size_t>(which);
  return {layer.place.base[place] + expert.index * layer.place.stride_bytes[place], layer.size_bytes[place]};
}

std::optional<extent> catalog::in_one_piece(expert_id expert) const noexcept {
  const extent gate = at(expert, matrix::gate), up = at(expert, matrix::up), down = at(expert, matrix::down);
  if (up.data != gate.data + gate.size_bytes || down.data != up.data + up.size_bytes) return std::nullopt;
  return extent{gate.data, gate.size_bytes + up.size_bytes + down.size_bytes};
}

extent catalog::tensor(std::uint32_t layer, matrix which) const noexcept {
  const extent first = at({layer, 0}, which);
  EBB_ASSERT(layers_[layer].place.stride_bytes[static_cast<std::size_t>(which)] == first.size_bytes);
  return {first.data, first.size_bytes * n_experts_};
}

const layer_formats& catalog::formats(std::uint32_t layer) const noexcept {
  EBB_ASSERT(layer < layers_.size());
  return layers_[layer].formats;
}

std::uint64_t catalog::expert_bytes(std::uint32_t layer) const noexcept {
  EBB_ASSERT(layer < layers_.size());
  const auto& sizes = layers_[layer].size_bytes;
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

std::uint64_t catalog::expert_bytes_max(std::uint32_t layer_begin, std::uint32_t layer_end) const noexcept {
  std::uint64_t largest = 0;
  for (std::uint32_t layer = layer_begin; layer < layer_end; ++layer) largest = std::max(largest, expert_bytes(layer));
  return largest;
}

std::uint32_t catalog::n_layers() const noexcept { return static_cast<std::uint32_t>(layers_.size()); }
std::uint32_t catalog::n_experts() const noexcept { return n_experts_; }

}  // namespace ebb::model

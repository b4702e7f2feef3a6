#include "model/expert_store.hpp"
#include "config/assert.hpp"
#include <utility>

namespace ebb::model {
namespace {

constexpr matrix matrices[] = {matrix::gate, matrix::up, matrix::down};

kernels::store_piece piece_of(const gguf& file, const extent& tensor) {
  const std::span<const std::byte> bytes{tensor.data, tensor.size_bytes};
  const auto place = file.place_of(bytes);
  if (!place) return {.mapped = bytes};
  return {bytes, place->descriptor, place->offset_bytes};
}

}  // namespace

expert_store::expert_store(std::shared_ptr<const checkpoint> weights, catalog experts, std::unique_ptr<kernels::pinned_store> copy)
    : weights_(std::move(weights)), experts_(std::move(experts)), copy_(std::move(copy)) {}

std::shared_ptr<const expert_store> expert_store::mapped(std::shared_ptr<const checkpoint> weights) {
  catalog experts = weights->experts();
  return std::shared_ptr<const expert_store>(new expert_store(std::move(weights), std::move(experts), nullptr));
}

result<std::shared_ptr<const expert_store>> expert_store::pinned(std::shared_ptr<const checkpoint> weights, std::uint32_t layer_begin,
                                                                 std::uint32_t layer_end, std::shared_ptr<kernels::gpu> gpu,
                                                                 const kernels::store_options& options) {
  EBB_ASSERT(layer_begin < layer_end);
  std::vector<kernels::store_group> layers;
  for (std::uint32_t layer = layer_begin; layer < layer_end; ++layer) {
    kernels::store_group& group = layers.emplace_back();
    group.n_parts = weights->experts().n_experts();
    for (const matrix which : matrices) group.pieces.push_back(piece_of(weights->file(), weights->experts().tensor(layer, which)));
  }
  auto copy = kernels::pinned_store::read(layers, std::move(gpu), options);
  if (!copy) return fail(copy.error());
  std::vector<layer_place> places(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (std::size_t which = 0; which < matrices_per_expert; ++which) places[i].base[which] = (*copy)->piece(i, which);
    places[i].stride_bytes.fill((*copy)->stride_bytes(i));
  }
  catalog experts = weights->experts().moved(layer_begin, places);
  return std::shared_ptr<const expert_store>(new expert_store(std::move(weights), std::move(experts), std::move(*copy)));
}

}  // namespace ebb::model

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
  std::vector<kernels::store_piece> pieces;  // [layers, matrices_per_expert]
  for (std::uint32_t layer = layer_begin; layer < layer_end; ++layer) {
    for (const matrix which : matrices) pieces.push_back(piece_of(weights->file(), weights->experts().tensor(layer, which)));
  }
  auto copy = kernels::pinned_store::read(pieces, std::move(gpu), options);
  if (!copy) return fail(copy.error());
  std::vector<layer_bases> bases(layer_end - layer_begin);
  for (std::size_t i = 0; i < pieces.size(); ++i) bases[i / matrices_per_expert][i % matrices_per_expert] = (*copy)->piece(i);
  catalog experts = weights->experts().moved(layer_begin, bases);
  return std::shared_ptr<const expert_store>(new expert_store(std::move(weights), std::move(experts), std::move(*copy)));
}

}  // namespace ebb::model

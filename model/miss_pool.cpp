#include "model/miss_pool.hpp"
#include "config/limits.hpp"
#include <algorithm>

namespace ebb::model {

miss_pool::miss_pool(const catalog& store, const shape& dims, std::uint32_t layer_begin, std::uint32_t layer_end,
                     const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool)
    : store_(store),
      d_model_(dims.d_model),
      in_store_(store, layer_begin, layer_end),
      worker_(dims, limits::miss_rows_max * dims.top_k, ops, pool) {}

// More than there is room for is computed in pieces: an expert that lies across two of them is read twice, and no bit is another.
void miss_pool::compute(std::uint32_t layer, std::span<const kernels::miss> misses, const kernels::activations& x, float* out) {
  const std::uint32_t of_model = in_store_.layer_begin() + layer;
  const layer_experts experts{in_store_.layer(of_model), store_.formats(of_model)};
  while (!misses.empty()) {
    const std::size_t n = std::min<std::size_t>(misses.size(), worker_.pairs_max());
    worker_.compute(misses.first(n), experts, x, out);
    misses = misses.subspan(n);
    out += n * d_model_;
  }
}

}  // namespace ebb::model

// kernels/cuda/stage_many.cpp: windows of many rows: driven by the host, layer by layer, with the misses streamed through a ring.
#include "kernels/cuda/stage.hpp"
#include "config/assert.hpp"
#include "kernels/cuda/upload.hpp"
#include <algorithm>

namespace ebb::kernels::cuda {
namespace {

constexpr std::uint32_t batch_of_misses = stage_memory::spare_count / 2;

}  // namespace

result<void> stage::run_many(const stage_window& what, std::uint32_t begin, std::uint32_t n) {
  stage_memory& m = *memory_;
  const stage_shape& shape = m.shape();
  const cudaStream_t on = stream_.get();
  const window_input input = m.input_at(m.input, n);
  upload(m.input, m.input_host, input.size_bytes, on);
  std::uint32_t last_position = 0;
  for (std::uint32_t i = 0; i < n; ++i) last_position = std::max(last_position, what.rows[begin + i].position);
  for (std::uint32_t number = 0; number < shape.n_layers; ++number) {
    const layer_on_device& layer = m.layers[number];
    norm_and_quantise(input.x, nullptr, layer.attn_norm, shape.rms_eps, n, m.normed, on);
    const auto project = [&](const device_weights& w, float* y) { matmul({.w = w, .x = m.normed, .n = n, .y = y}, on); };
    project(layer.attn_q, m.q);
    project(layer.attn_k, m.k);
    project(layer.attn_v, m.v);
    enqueue_attention(layer, n, input, m.chunks_of(last_position), false);
    matmul({.w = layer.attn_output, .x = m.attended, .n = n, .y = input.x, .add = true}, on);

    norm_and_quantise(input.x, nullptr, layer.ffn_norm, shape.rms_eps, n, m.normed, on);
    matmul({.w = layer.router, .x = m.normed, .n = n, .y = m.router_logits}, on);
    std::uint32_t* picked = m.picked_host + (std::size_t{number} * shape.rows_max + begin) * shape.top_k;
    rank_experts({m.router_logits, n, shape.n_experts, shape.top_k, picked, m.pair_weight}, on);
    if (auto settled = settle(false, n); !settled) return settled;

    group_picks(what, number, begin, n);
    write_tiles(what, number);
    const auto first_miss = static_cast<std::size_t>(std::find_if(groups_.begin(), groups_.end(), [](const group& g) { return !g.in_slot; }) - groups_.begin());
    stream_misses(what, number, first_miss);
    combine_and_add(m.expert_out, m.pair_weight, shape.top_k, n, shape.d_model, input.x, on);
  }
  if (m.has_output()) enqueue_logits(what, begin, n, input.x);
  else cudaMemcpyAsync(m.x_host, input.x, std::size_t{n} * shape.d_model * sizeof(float), cudaMemcpyDeviceToHost, on);
  return settle(false, n);
}

// A counting sort of the chunk's pairs by expert; experts that are in a slot come first.
void stage::group_picks(const stage_window& what, std::uint32_t layer, std::uint32_t begin, std::uint32_t n) {
  stage_memory& m = *memory_;
  const stage_shape& shape = m.shape();
  const std::uint32_t* picks = m.picked_host + (std::size_t{layer} * shape.rows_max + begin) * shape.top_k;
  const std::uint32_t n_pairs = n * shape.top_k;
  counts_.assign(shape.n_experts, 0);
  for (std::uint32_t pair = 0; pair < n_pairs; ++pair) ++counts_[picks[pair]];
  groups_.clear();
  std::uint32_t place = 0;
  for (const bool in_slot : {true, false}) {
    for (std::uint32_t e = 0; e < shape.n_experts; ++e) {
      if (counts_[e] == 0 || what.experts[std::size_t{layer} * shape.n_experts + e].in_slot != in_slot) continue;
      groups_.push_back({e, place, counts_[e], in_slot});
      place += counts_[e];
    }
  }
  for (const group& g : groups_) counts_[g.expert] = g.first;
  for (std::uint32_t pair = 0; pair < n_pairs; ++pair) {
    const std::uint32_t at = counts_[picks[pair]]++;
    m.place_row_host[at] = pair / shape.top_k;
    m.place_pair_host[at] = pair;
  }
  upload(m.place_row, m.place_row_host, n_pairs * sizeof(std::uint32_t), stream_.get());
  upload(m.place_pair, m.place_pair_host, n_pairs * sizeof(std::uint32_t), stream_.get());
}

// A miss is read from its place of the ring, which it has by its number among the misses.
void stage::write_tiles(const stage_window& what, std::uint32_t layer) {
  stage_memory& m = *memory_;
  tiles_before_.assign(1, 0);
  std::uint32_t n_tiles = 0, n_misses = 0;
  for (const group& g : groups_) {
    const expert_entry& entry = what.experts[std::size_t{layer} * m.shape().n_experts + g.expert];
    const std::uint8_t* matrix[matrices_per_expert];
    const std::uint8_t* place = m.spare + (n_misses % m.spare_count) * m.spare_bytes;
    for (std::size_t which = 0; which < matrices_per_expert; ++which) {
      matrix[which] = g.in_slot ? reinterpret_cast<const std::uint8_t*>(entry.matrix[which]) : place;
      place += m.layers[layer].expert_bytes[which];
    }
    n_misses += g.in_slot ? 0 : 1;
    for (std::uint32_t done = 0; done < g.n; done += matmul_tile_columns) {
      EBB_ASSERT(n_tiles < m.tiles_max);
      for (std::size_t which = 0; which < matrices_per_expert; ++which) {
        m.tiles_host[which * m.tiles_max + n_tiles] = {matrix[which], g.first + done, std::min(g.n - done, matmul_tile_columns)};
      }
      ++n_tiles;
    }
    tiles_before_.push_back(n_tiles);
  }
  for (std::size_t which = 0; which < matrices_per_expert; ++which) {
    upload(m.tiles + which * m.tiles_max, m.tiles_host + which * m.tiles_max, n_tiles * sizeof(matmul_tile), stream_.get());
  }
}

// Groups [first, last), whose weights are where the tiles say.
void stage::compute_groups(std::uint32_t number, std::size_t first, std::size_t last) {
  if (first == last) return;
  stage_memory& m = *memory_;
  const stage_shape& shape = m.shape();
  const layer_on_device& layer = m.layers[number];
  const std::uint32_t tile = tiles_before_[first], n_tiles = tiles_before_[last] - tile;
  const std::uint32_t place = groups_[first].first, n_places = groups_[last - 1].first + groups_[last - 1].n - place;
  const auto multiply = [&](std::size_t which, const activation_buffer& x, const std::uint32_t* x_row, const std::uint32_t* y_row, std::uint32_t n_rows, float* y) {
    matmul({.w = {nullptr, layer.expert_formats[which], n_rows, x.n_cols},
            .x = x,
            .tiles = m.tiles + which * m.tiles_max + tile,
            .n_tiles = n_tiles,
            .x_row = x_row,
            .y_row = y_row,
            .y = y},
           stream_.get());
  };
  multiply(0, m.normed, m.place_row, nullptr, shape.d_ff, m.gate);
  multiply(1, m.normed, m.place_row, nullptr, shape.d_ff, m.up);
  swiglu_and_quantise(m.gate + std::size_t{place} * shape.d_ff, m.up + std::size_t{place} * shape.d_ff, n_places, from_row(m.hidden, place), stream_.get());
  multiply(2, m.hidden, nullptr, m.place_pair, shape.d_model, m.expert_out);
}

// Computes what is in slots, then the misses in batches, each copied to one half of the ring while the batch before it is computed.
void stage::stream_misses(const stage_window& what, std::uint32_t layer, std::size_t first_miss) {
  stage_memory& m = *memory_;
  const std::size_t n_misses = groups_.size() - first_miss;
  const std::size_t n_batches = (n_misses + batch_of_misses - 1) / batch_of_misses;
  const auto copy_batch = [&](std::size_t batch) {
    if (batch >= n_batches) return;
    if (batch >= 2) cudaStreamWaitEvent(copies_.get(), free_[batch % 2].get());
    for (std::size_t miss = batch * batch_of_misses; miss < std::min(n_misses, (batch + 1) * batch_of_misses); ++miss) {
      const expert_entry& from = what.experts[std::size_t{layer} * m.shape().n_experts + groups_[first_miss + miss].expert];
      std::uint8_t* to = m.spare + (miss % m.spare_count) * m.spare_bytes;
      const auto& bytes = m.layers[layer].expert_bytes;
      if (from.matrix[1] == from.matrix[0] + bytes[0] && from.matrix[2] == from.matrix[1] + bytes[1]) {  // a pinned store: one copy, which is faster than three
        cudaMemcpyAsync(to, from.matrix[0], bytes[0] + bytes[1] + bytes[2], cudaMemcpyHostToDevice, copies_.get());
        continue;
      }
      for (std::size_t which = 0; which < matrices_per_expert; ++which) {
        cudaMemcpyAsync(to, from.matrix[which], bytes[which], cudaMemcpyHostToDevice, copies_.get());
        to += bytes[which];
      }
    }
    cudaEventRecord(ready_[batch % 2].get(), copies_.get());
  };
  copy_batch(0);
  copy_batch(1);
  compute_groups(layer, 0, first_miss);
  for (std::size_t batch = 0; batch < n_batches; ++batch) {
    cudaStreamWaitEvent(stream_.get(), ready_[batch % 2].get());
    compute_groups(layer, first_miss + batch * batch_of_misses, std::min(groups_.size(), first_miss + (batch + 1) * batch_of_misses));
    cudaEventRecord(free_[batch % 2].get(), stream_.get());
    copy_batch(batch + 2);
  }
  timing_.misses_copied += static_cast<std::uint32_t>(n_misses);
}

void stage::enqueue_logits(const stage_window& what, std::uint32_t begin, std::uint32_t n, const float* x) {
  stage_memory& m = *memory_;
  const stage_shape& shape = m.shape();
  std::uint32_t count = 0;
  for (const std::uint32_t row : what.sampled) {
    if (row >= begin && row < begin + n) m.sampled_host[count++] = row - begin;
  }
  if (count == 0) return;
  upload(m.sampled, m.sampled_host, count * sizeof(std::uint32_t), stream_.get());
  norm_and_quantise(x, m.sampled, m.output_norm, shape.rms_eps, count, m.head, stream_.get());
  for (std::uint32_t done = 0; done < count; done += matvec_rows_max) {
    const matvec_job job{m.output, m.logits + std::size_t{done} * shape.n_vocab};
    matvec(&job, 1, from_row(m.head, done), std::min(matvec_rows_max, count - done), stream_.get());
  }
  cudaMemcpyAsync(m.logits_host + sampled_ * shape.n_vocab, m.logits, std::size_t{count} * shape.n_vocab * sizeof(float), cudaMemcpyDeviceToHost, stream_.get());
  sampled_ += count;
}

}  // namespace ebb::kernels::cuda

#include "kernels/cuda/stage_memory.hpp"
#include "config/assert.hpp"
#include <algorithm>

namespace ebb::kernels::cuda {
namespace {

// Of what is free: the rest is for experts.
constexpr std::uint64_t buffers_share = 8;

std::uint64_t rounded_up(std::uint64_t n, std::uint64_t unit) { return (n + unit - 1) / unit * unit; }

result<void> refuse(const std::string& what) {
  return fail(errc::unsupported_format, "cuda: " + what + "; this model runs on host cards: cards = [\"host\"]");
}

result<void> check_shape(const stage_shape& shape) {
  if (shape.head_dim % 32 != 0 || shape.head_dim > 256) return refuse("heads of " + std::to_string(shape.head_dim) + " values are not supported, only multiples of 32 up to 256");
  if (shape.n_experts > 512) return refuse("more than 512 experts a layer are not supported");
  if (shape.top_k > 32) return refuse("more than 32 experts a token are not supported");
  if (shape.d_model > 11'264) return refuse("rows of more than 11264 values are not supported");
  return {};
}

}  // namespace

stage_memory::stage_memory(const stage_description& what) : shape_(what.shape), head_rows_(std::max(what.shape.sampled_max, doorbell_rows_max)), has_output_(what.output.norm != nullptr) {}

result<std::unique_ptr<stage_memory>> stage_memory::make(const stage_description& what) {
  EBB_ASSERT(what.layers.size() == what.shape.n_layers);
  if (auto fits = check_shape(what.shape); !fits) return fail(fits.error());
  std::unique_ptr<stage_memory> made(new stage_memory(what));

  allocator weights;
  made->describe_weights(weights, what);
  const stage_shape& shape = what.shape;
  auto piece = take_device(weights.used_bytes(), "no room for the dense weights of " + std::to_string(shape.n_layers) + " layers and the keys and values of " +
                                                     std::to_string(shape.n_sessions) + " sessions of " + std::to_string(shape.context) +
                                                     " positions; lower `context` or `parallel`");
  if (!piece) return fail(piece.error());
  made->weights_piece_ = std::move(*piece);

  std::size_t free_bytes = 0, total_bytes = 0;
  if (auto read = check(cudaMemGetInfo(&free_bytes, &total_bytes), "what is free"); !read) return fail(read.error());
  made->chunk_rows_ = std::max(shape.rows_max, chunk_rows_min);
  for (;; made->chunk_rows_ /= 2) {
    allocator buffers;
    made->describe_buffers(buffers);
    if (buffers.used_bytes() > free_bytes / buffers_share && made->chunk_rows_ / 2 >= chunk_rows_min) continue;
    piece = take_device(buffers.used_bytes(), "no room for the buffers of a window of " + std::to_string(made->chunk_rows_) +
                                                  " rows; lower `context` or `parallel`, give the card fewer layers, or free memory of the GPU");
    if (!piece) return fail(piece.error());
    made->buffers_piece_ = std::move(*piece);
    made->held_bytes_ = weights.used_bytes() + buffers.used_bytes();
    break;
  }
  allocator pinned;
  made->describe_pinned(pinned);
  auto host = take_pinned(pinned.used_bytes(), "no memory for what the CPU and the GPU share");
  if (!host) return fail(host.error());
  made->pinned_piece_ = std::move(*host);

  allocator weights_at(made->weights_piece_.get()), buffers_at(made->buffers_piece_.get()), pinned_at(made->pinned_piece_.get());
  made->describe_weights(weights_at, what);
  made->describe_buffers(buffers_at);
  made->describe_pinned(pinned_at);
  if (auto uploaded = made->upload(what); !uploaded) return fail(uploaded.error());
  // Copies from ordinary memory may return before they have ended, and windows run on streams that do not wait for the one they are on.
  if (auto ended = check(cudaDeviceSynchronize(), "copying the dense weights"); !ended) return fail(ended.error());
  return made;
}

void stage_memory::abandon() noexcept {
  static_cast<void>(weights_piece_.release());
  static_cast<void>(buffers_piece_.release());
  static_cast<void>(pinned_piece_.release());
}

void stage_memory::describe_weights(allocator& from, const stage_description& what) {
  const auto take_matrix = [&](const weights& w) {
    return device_weights{from.take<std::uint8_t>(w.row_bytes() * w.n_rows), w.type, w.n_rows, w.n_cols};
  };
  const auto take_norm = [&](const float* norm, std::size_t n) { return norm != nullptr ? from.take<float>(n) : nullptr; };
  layers.clear();
  spare_bytes = 0;
  for (const dense_layer& layer : what.layers) {
    layer_on_device& to = layers.emplace_back();
    to.attn_norm = take_norm(layer.attn_norm, shape_.d_model);
    to.attn_q_norm = take_norm(layer.attn_q_norm, shape_.head_dim);
    to.attn_k_norm = take_norm(layer.attn_k_norm, shape_.head_dim);
    to.ffn_norm = take_norm(layer.ffn_norm, shape_.d_model);
    to.attn_q = take_matrix(layer.attn_q);
    to.attn_k = take_matrix(layer.attn_k);
    to.attn_v = take_matrix(layer.attn_v);
    to.attn_output = take_matrix(layer.attn_output);
    to.router = take_matrix(layer.router);
    std::uint64_t expert_bytes = 0;
    for (std::size_t m = 0; m < matrices_per_expert; ++m) {
      to.expert_formats[m] = layer.expert_formats[m];
      to.expert_bytes[m] = bytes_of(layer.expert_formats[m], std::size_t{shape_.d_ff} * shape_.d_model);
      expert_bytes += to.expert_bytes[m];
    }
    spare_bytes = std::max(spare_bytes, rounded_up(expert_bytes, allocator::alignment));
    pairs_alone_ = pairs_alone_ && to.expert_formats[0] == to.expert_formats[1];
    for (const format type : to.expert_formats) pairs_alone_ = pairs_alone_ && info(type).values_per_block > 1;
    const std::size_t kv_values = std::size_t{shape_.n_sessions} * shape_.n_kv_heads * shape_.context * shape_.head_dim;
    to.kv.k = from.take<std::uint16_t>(kv_values);
    to.kv.v = from.take<std::uint16_t>(kv_values);
    to.kv.n_kv_heads = shape_.n_kv_heads;
    to.kv.context = shape_.context;
    to.kv.head_dim = shape_.head_dim;
  }
  output_norm = take_norm(what.output.norm, shape_.d_model);
  if (has_output_) output = take_matrix(what.output.matrix);
}

void stage_memory::take_activations(allocator& from, std::size_t n_rows, std::uint32_t n_cols, bool with_residuals, activation_buffer& to) {
  to.n_cols = n_cols;
  to.x = from.take<float>(n_rows * n_cols);
  for (quantised_buffer& part : to.part) {
    if (&part == &to.part[1] && !with_residuals) break;
    part.q = from.take<std::int8_t>(n_rows * n_cols);
    part.d = from.take<float>(n_rows * n_cols / 32);
    part.sum = from.take<std::int32_t>(n_rows * n_cols / 32);
  }
}

void stage_memory::describe_buffers(allocator& from) {
  const std::size_t rows = chunk_rows_, pairs_max = rows * shape_.top_k;
  const std::size_t heads = shape_.n_heads, context = rounded_up(shape_.context, attention_chunk);
  input = from.take<std::byte>(input_at(nullptr, chunk_rows_).size_bytes);
  experts = from.take<device_expert>(std::size_t{shape_.n_layers} * shape_.n_experts);
  take_activations(from, rows, shape_.d_model, true, normed);
  q = from.take<float>(rows * heads * shape_.head_dim);
  k = from.take<float>(rows * shape_.n_kv_heads * shape_.head_dim);
  v = from.take<float>(rows * shape_.n_kv_heads * shape_.head_dim);
  take_activations(from, rows, shape_.n_heads * shape_.head_dim, true, attended);
  scores_max = std::max(doorbell_rows_max * heads * context, rows * heads * std::min<std::size_t>(context, 2 * attention_chunk));
  scores = from.take<float>(scores_max);
  chunk_max = from.take<float>(scores_max / attention_chunk);
  chunk_sum = from.take<float>(scores_max / attention_chunk);
  chunk_out = from.take<float>(scores_max / attention_chunk * shape_.head_dim);
  arrivals = from.take<std::uint32_t>(rows * heads);
  router_logits = from.take<float>(rows * shape_.n_experts);
  pair_weight = from.take<float>(pairs_max);
  pairs = from.take<device_pair>(doorbell_misses_max);
  staging = from.take<staging_list>(shape_.n_layers);
  cpu_of = from.take<std::uint32_t>(shape_.n_layers * (doorbell_misses_max + 1));
  cpu_out = from.take<float>(std::size_t{doorbell_misses_max} * shape_.d_model);
  gate = from.take<float>(pairs_max * shape_.d_ff);
  up = from.take<float>(pairs_max * shape_.d_ff);
  take_activations(from, pairs_max, shape_.d_ff, true, hidden);
  hidden_arrivals = from.take<std::uint32_t>(std::size_t{doorbell_misses_max} * shape_.d_ff / 32);
  expert_out = from.take<float>(pairs_max * shape_.d_model);
  place_row = from.take<std::uint32_t>(pairs_max);
  place_pair = from.take<std::uint32_t>(pairs_max);
  tiles_max = static_cast<std::uint32_t>(std::min<std::size_t>(shape_.n_experts, pairs_max) + pairs_max / matmul_tile_columns);
  tiles = from.take<matmul_tile>(std::size_t{matrices_per_expert} * tiles_max);
  spare = from.take<std::uint8_t>(spare_count * spare_bytes);
  sampled = from.take<std::uint32_t>(rows);
  if (!has_output_) return;
  take_activations(from, head_rows_, shape_.d_model, false, head);
  logits = from.take<float>(std::size_t{head_rows_} * shape_.n_vocab);
}

void stage_memory::describe_pinned(allocator& from) {
  const std::size_t pairs_max = std::size_t{chunk_rows_} * shape_.top_k;
  input_host = from.take<std::byte>(input_at(nullptr, chunk_rows_).size_bytes);
  experts_host = from.take<device_expert>(std::size_t{shape_.n_layers} * shape_.n_experts);
  picked_host = from.take<std::uint32_t>(std::size_t{shape_.n_layers} * shape_.rows_max * shape_.top_k);
  place_row_host = from.take<std::uint32_t>(pairs_max);
  place_pair_host = from.take<std::uint32_t>(pairs_max);
  sampled_host = from.take<std::uint32_t>(chunk_rows_);
  cpu_of_host = from.take<std::uint32_t>(shape_.n_layers * (doorbell_misses_max + 1));
  tiles_host = from.take<matmul_tile>(std::size_t{matrices_per_expert} * tiles_max);
  x_host = from.take<float>(std::size_t{chunk_rows_} * shape_.d_model);
  bell = from.take<mailslot>(1);
  for (quantised_buffer& part : posted) {
    part.q = from.take<std::int8_t>(std::size_t{doorbell_rows_max} * shape_.d_model);
    part.d = from.take<float>(std::size_t{doorbell_rows_max} * shape_.d_model / 32);
    part.sum = from.take<std::int32_t>(std::size_t{doorbell_rows_max} * shape_.d_model / 32);
  }
  results = from.take<float>(std::size_t{doorbell_misses_max} * shape_.d_model);
  if (has_output_) logits_host = from.take<float>(std::size_t{head_rows_} * shape_.n_vocab);
}

window_input stage_memory::input_at(std::byte* base, std::uint32_t n) const noexcept {
  window_input at;
  allocator from(base);
  at.number = from.take<std::uint32_t>(1);
  at.rows = from.take<window_row>(n);
  at.cos = from.take<float>(std::size_t{n} * shape_.head_dim / 2);
  at.sin = from.take<float>(std::size_t{n} * shape_.head_dim / 2);
  at.x = from.take<float>(std::size_t{n} * shape_.d_model);
  at.size_bytes = from.used_bytes();
  return at;
}

result<void> stage_memory::upload(const stage_description& what) {
  const auto copy = [](void* to, const void* from, std::size_t n_bytes) {
    return check(cudaMemcpy(to, from, n_bytes, cudaMemcpyHostToDevice), "copying the dense weights");
  };
  const auto copy_norm = [&](float* to, const float* from, std::size_t n) -> result<void> {
    if (from == nullptr) return {};
    return copy(to, from, n * sizeof(float));
  };
  const auto copy_matrix = [&](const device_weights& to, const weights& from) {
    return copy(const_cast<std::uint8_t*>(to.data), from.data, from.row_bytes() * from.n_rows);
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const dense_layer& from = what.layers[i];
    const layer_on_device& to = layers[i];
    for (const auto& copied : {copy_norm(to.attn_norm, from.attn_norm, shape_.d_model), copy_norm(to.attn_q_norm, from.attn_q_norm, shape_.head_dim),
                               copy_norm(to.attn_k_norm, from.attn_k_norm, shape_.head_dim), copy_norm(to.ffn_norm, from.ffn_norm, shape_.d_model),
                               copy_matrix(to.attn_q, from.attn_q), copy_matrix(to.attn_k, from.attn_k), copy_matrix(to.attn_v, from.attn_v),
                               copy_matrix(to.attn_output, from.attn_output), copy_matrix(to.router, from.router)}) {
      if (!copied) return copied;
    }
  }
  if (!has_output()) return {};
  if (auto copied = copy_norm(output_norm, what.output.norm, shape_.d_model); !copied) return copied;
  return copy_matrix(output, what.output.matrix);
}

}  // namespace ebb::kernels::cuda

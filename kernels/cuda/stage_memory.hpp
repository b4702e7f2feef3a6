// kernels/cuda/stage_memory.hpp: everything that a stage keeps on its GPU and in pinned host memory: weights, keys and values, buffers.
//
// R = chunk_rows, the most rows that go through the layers at once; P = R * top_k pairs.
#pragma once
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/buffers.hpp"
#include "kernels/cuda/experts.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/gpu.hpp"

namespace ebb::kernels::cuda {

struct layer_on_device {
  float *attn_norm = nullptr, *attn_q_norm = nullptr, *attn_k_norm = nullptr, *ffn_norm = nullptr;
  device_weights attn_q, attn_k, attn_v, attn_output, router;
  std::array<format, matrices_per_expert> expert_formats;
  std::uint64_t expert_bytes[matrices_per_expert];  // of one matrix
  kv_layer kv;
};

// What the host writes for a window, copied to the device in one piece: its beginning has the same layout for a given number of rows.
struct window_input {
  std::uint32_t* number = nullptr;                     // of the window; [1]
  window_row* rows = nullptr;                          // [n]
  float *cos = nullptr, *sin = nullptr, *x = nullptr;  // [n, head_dim / 2] twice, [n, d_model]
  std::size_t size_bytes = 0;
};

class stage_memory {
 public:
  // Errors: out_of_memory (says what did not fit, and which settings lower it), unsupported_format (a shape that these kernels do not do), card_lost.
  static result<std::unique_ptr<stage_memory>> make(const stage_description& what);

  const stage_shape& shape() const noexcept { return shape_; }
  std::uint32_t chunk_rows() const noexcept { return chunk_rows_; }
  std::uint64_t held_bytes() const noexcept { return held_bytes_; }
  bool has_output() const noexcept { return has_output_; }
  // Whether windows of few rows may go a pair at a time, without the host: gate and up of every layer have one format, and all are quantised.
  bool pairs_alone() const noexcept { return pairs_alone_; }

  // Forgets what it holds without giving it back.
  void abandon() noexcept;

  // The input block of a window of n rows, on either side.
  window_input input_at(std::byte* base, std::uint32_t n) const noexcept;
  std::uint32_t chunks_of(std::uint32_t position) const noexcept { return position / attention_chunk + 1; }

  std::vector<layer_on_device> layers;
  float* output_norm = nullptr;
  device_weights output;

  // --- on the device
  std::byte* input = nullptr;
  device_expert* experts = nullptr;         // [n_layers, n_experts]
  activation_buffer normed;                 // [R, d_model]
  float *q = nullptr, *k = nullptr, *v = nullptr;
  activation_buffer attended;               // [R, n_heads * head_dim]
  std::size_t scores_max = 0;               // floats in `scores`
  float *scores = nullptr, *chunk_max = nullptr, *chunk_sum = nullptr, *chunk_out = nullptr;
  std::uint32_t* arrivals = nullptr;        // [R, n_heads]
  float *router_logits = nullptr, *pair_weight = nullptr;  // [R, n_experts], [P]
  device_pair* pairs = nullptr;             // [doorbell_misses_max]
  staging_list* staging = nullptr;          // [n_layers]
  std::uint32_t* cpu_of = nullptr;          // [n_layers, doorbell_misses_max + 1]
  float* cpu_out = nullptr;                 // [doorbell_misses_max, d_model]
  float *gate = nullptr, *up = nullptr;     // [P, d_ff]
  activation_buffer hidden;                 // [P, d_ff]
  std::uint32_t* hidden_arrivals = nullptr; // [doorbell_misses_max, d_ff / 32]
  float* expert_out = nullptr;              // [P, d_model]
  std::uint32_t *place_row = nullptr, *place_pair = nullptr;  // [P]
  matmul_tile* tiles = nullptr;             // [3, tiles_max]
  std::uint32_t tiles_max = 0;
  std::uint8_t* spare = nullptr;            // [spare_count, spare_bytes]: experts on their way through
  std::uint64_t spare_bytes = 0;
  std::uint32_t* sampled = nullptr;         // [R]
  activation_buffer head;                   // [sampled rows, d_model], without residuals
  float* logits = nullptr;                  // [sampled rows, n_vocab]

  // --- in pinned host memory
  std::byte* input_host = nullptr;
  device_expert* experts_host = nullptr;
  std::uint32_t* picked_host = nullptr;     // [n_layers, rows_max, top_k]; the GPU writes it
  std::uint32_t *place_row_host = nullptr, *place_pair_host = nullptr, *sampled_host = nullptr, *cpu_of_host = nullptr;  // the last as cpu_of
  matmul_tile* tiles_host = nullptr;
  float *logits_host = nullptr, *x_host = nullptr;  // x_host: [R, d_model], what comes back
  mailslot* bell = nullptr;
  quantised_buffer posted[2];               // [doorbell_rows_max, d_model]
  float* results = nullptr;                 // [doorbell_misses_max, d_model]

  static constexpr std::uint32_t spare_count = 16;
  static constexpr std::uint32_t chunk_rows_min = 32;

 private:
  explicit stage_memory(const stage_description& what);
  void describe_weights(allocator& from, const stage_description& what);
  void describe_buffers(allocator& from);
  void describe_pinned(allocator& from);
  void take_activations(allocator& from, std::size_t n_rows, std::uint32_t n_cols, bool with_residuals, activation_buffer& to);
  result<void> upload(const stage_description& what);

  stage_shape shape_;
  std::uint32_t chunk_rows_ = 0;
  std::uint32_t head_rows_ = 0;
  bool has_output_;
  bool pairs_alone_ = true;
  std::uint64_t held_bytes_ = 0;
  device_piece weights_piece_, buffers_piece_;
  pinned_piece pinned_piece_;
};

}  // namespace ebb::kernels::cuda

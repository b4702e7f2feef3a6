// kernels/gpu.hpp: what a card asks of a GPU, free of any vendor's library: the GPU itself, and the pass of a window through the
// layers that live on it. Implemented by a module that is loaded at start (kernels/gpu_module.hpp).
//
// Shapes: d_model, n_heads, n_kv_heads, head_dim, n_experts, top_k, d_ff (width of an expert), n_vocab. All matrices are row-major.
// Every result has the bits that docs/ARITHMETIC.md defines, the same as the CPU's.
#pragma once
#include "config/limits.hpp"
#include "config/result.hpp"
#include "kernels/expert_entry.hpp"
#include "kernels/matmul.hpp"
#include "kernels/memory/arena.hpp"
#include "kernels/miss.hpp"
#include "kernels/window_row.hpp"
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ebb::kernels {

struct memory_figures {
  std::uint64_t free_bytes = 0;   // for anybody, now
  std::uint64_t total_bytes = 0;
};

struct gpu_description {
  std::uint32_t number = 0;    // as the driver counts, from 0
  std::string name;            // "NVIDIA H200"
  std::string pci_address;     // "0000:17:00.0"
  std::string uuid;            // "GPU-" and 36 characters
  std::uint64_t total_bytes = 0;
  std::optional<std::uint64_t> free_bytes;  // when this was asked; none: it cannot be known without a context, which takes memory
};

struct stage_shape {
  std::uint32_t n_layers, d_model, n_heads, n_kv_heads, head_dim, n_experts, top_k, d_ff, n_vocab;  // n_layers: of this stage
  std::uint32_t n_sessions, context;
  std::uint32_t rows_max;     // of a window
  std::uint32_t sampled_max;  // rows of a window whose logits are wanted
  float rms_eps;
  double rope_base;
};

// The dense tensors of a layer, in host memory; read while the stage is made, not kept.
struct dense_layer {
  const float* attn_norm = nullptr;                             // [d_model]
  weights attn_q, attn_k, attn_v;                               // [n_heads * head_dim, d_model], [n_kv_heads * head_dim, d_model] twice
  const float* attn_q_norm = nullptr;                           // [head_dim], or null: the family has none
  const float* attn_k_norm = nullptr;
  weights attn_output;                                          // [d_model, n_heads * head_dim]
  const float* ffn_norm = nullptr;                              // [d_model]
  weights router;                                               // [n_experts, d_model], float
  std::array<format, matrices_per_expert> expert_formats{};     // of all experts of the layer
};

struct output_head {
  const float* norm = nullptr;  // [d_model], or null: this stage is not the last
  weights matrix;               // [n_vocab, d_model]
};

struct stage_description {
  stage_shape shape;
  std::vector<dense_layer> layers;  // [n_layers]
  output_head output;
  bool store_pinned = false;        // experts that are in no slot lie in memory that was given to gpu::pin
  std::chrono::milliseconds doorbell_timeout = limits::doorbell_timeout;  // a GPU waits no longer for the CPU; then the card is lost
};

// Computes experts on the CPU while a GPU waits. Called only by the thread that runs the stage.
class miss_pool {
 public:
  virtual ~miss_pool() = default;
  // out[i] [d_model] = expert misses[i].expert of the stage's layer `layer` (from 0), applied to row misses[i].row of x, which is quantised
  // in both parts, and given as floats too where gate or up of the layer are float weights. x and out are read and written as they are.
  virtual void compute(std::uint32_t layer, std::span<const miss> misses, const activations& x, float* out) = 0;
};

struct stage_window {
  std::span<const window_row> rows;          // those of a session in ascending positions, without gaps; 1 <= rows <= rows_max
  std::span<const std::uint32_t> sampled;    // ascending; not looked at where there is no output head
  std::span<const expert_entry> experts;     // [n_layers, n_experts]
  std::uint64_t experts_version = 0;         // names the contents of `experts`
  bool resident = false;                     // every expert is in a slot
  bool link_busy = false;                    // copies into the cache are on their way: the CPU computes what else would be copied beside them
};

// What a window took, for those who measure it. In milliseconds; 0 where it does not apply.
struct window_timing {
  double total_ms = 0;
  double upload_ms = 0;    // until the work was on its way
  double misses_ms = 0;    // of the CPU, computing
  double waiting_ms = 0;   // of the CPU, for the GPU
  std::uint32_t misses_cpu = 0, misses_copied = 0;
  double copy_ms_an_expert = 0, cpu_ms_an_expert = 0;  // as choose_ways found; 0: it was not called
};

// The layers that live on a GPU, with their keys and values. One thread at a time.
class gpu_stage {
 public:
  virtual ~gpu_stage() = default;

  // Measures what a missing expert costs on the CPU and copied, in some 10 ms, for a first share of both; windows go on learning. Until then
  // all are copied, or none from a store that is not pinned. Pre: `experts` as in stage_window, none in a slot (asserts). Errors: card_lost.
  virtual result<void> choose_ways(std::span<const expert_entry> experts) = 0;

  // Carries x [rows, d_model] in host memory through the layers, in place; returns when it has ended.
  // Errors: card_lost (the GPU failed or did not answer in time), out_of_memory.
  virtual result<void> run(const stage_window& what, float* x) = 0;

  // Of the last run; valid until the next. picked: [top_k] in rank order. logits: [sampled, n_vocab].
  virtual std::span<const std::uint32_t> picked(std::uint32_t layer, std::uint32_t row) const noexcept = 0;
  virtual std::span<const float> logits() const noexcept = 0;
  virtual const window_timing& timing() const noexcept = 0;

  // Bytes of the GPU that the stage holds: dense weights, keys and values, buffers, and graphs as the driver's free figure showed them.
  virtual std::uint64_t held_bytes() const noexcept = 0;
  // The most rows that go through the layers at once; a longer window is cut. By what was free when the stage was made.
  virtual std::uint32_t chunk_rows() const noexcept = 0;
  // Those that are held now, limits::graphs_max at most; a capture that failed is none.
  virtual std::uint32_t graphs() const noexcept = 0;
};

// A GPU that a card uses, with a context on it, which itself takes some hundred MiB.
class gpu {
 public:
  virtual ~gpu() = default;
  virtual const gpu_description& about() const noexcept = 0;

  // By the driver's own figure, some 8 us. Errors: card_lost.
  virtual result<memory_figures> memory() const = 0;

  // Errors: those of cuda_arena::create.
  virtual result<std::unique_ptr<arena>> make_arena(segment_layout layout) = 0;

  // Uploads the dense weights and takes memory for keys, values and buffers. `misses` must outlive the stage.
  // Errors: out_of_memory (says what was needed, and which settings lower it), card_lost.
  virtual result<std::unique_ptr<gpu_stage>> make_stage(const stage_description& what, miss_pool& misses) = 0;

  // Makes host memory readable by every GPU at full speed, until unpin. `base` and `size` are whole pages.
  // Errors: out_of_memory (the system does not lock so much), card_lost.
  virtual result<void> pin(void* base, std::size_t size) = 0;
  virtual void unpin(void* base) noexcept = 0;
};

// A vendor's driver.
class gpu_driver {
 public:
  virtual ~gpu_driver() = default;

  // Every GPU of this machine that is new enough; takes no context. Errors: refused (there are GPUs, and none of them is), card_lost.
  virtual result<std::vector<gpu_description>> list() const = 0;

  // Errors: unknown_device (names those there are), out_of_memory (too little is free for a context), card_lost.
  virtual result<std::shared_ptr<gpu>> open(std::uint32_t number) const = 0;
};

}  // namespace ebb::kernels

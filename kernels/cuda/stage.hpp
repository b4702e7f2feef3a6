// kernels/cuda/stage.hpp: the pass of a window through the layers that live on one GPU.
//
// Two ways, which give the same bits:
//   few rows    (at most doorbell_rows_max) everything is one sequence of launches that needs no host but for misses, which it rings for; it is
//               captured once a number of rows and replayed. Every expert is found through a table on the device, so a graph holds whatever
//               the residency is; with every expert in a slot a shorter graph is used, which never looks for misses.
//   many rows   the host reads each layer's picks, groups them by expert, multiplies by the matrix units, and streams the experts that are in
//               no slot through a ring of spare places while others are computed.
//
// Owned by one card, used by one thread at a time. CUDA's current device is set at each entry.
#pragma once
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/stage_memory.hpp"
#include "kernels/miss_share.hpp"
#include "kernels/rope.hpp"
#include <chrono>
#include <map>

namespace ebb::kernels::cuda {

struct stream_destroy {
  void operator()(cudaStream_t stream) const noexcept { cudaStreamDestroy(stream); }
};
struct event_destroy {
  void operator()(cudaEvent_t event) const noexcept { cudaEventDestroy(event); }
};
struct graph_destroy {
  void operator()(cudaGraphExec_t graph) const noexcept { cudaGraphExecDestroy(graph); }
};
using stream_handle = std::unique_ptr<CUstream_st, stream_destroy>;
using event_handle = std::unique_ptr<CUevent_st, event_destroy>;
using graph_handle = std::unique_ptr<CUgraphExec_st, graph_destroy>;

class stage final : public gpu_stage {
 public:
  // Errors: those of stage_memory::make.
  static result<std::unique_ptr<stage>> make(std::shared_ptr<const device> on, const stage_description& what, miss_pool& misses);
  ~stage() override;

  result<void> choose_ways(std::span<const expert_entry> experts) override;
  result<void> run(const stage_window& what, float* x) override;
  std::span<const std::uint32_t> picked(std::uint32_t layer, std::uint32_t row) const noexcept override;
  std::span<const float> logits() const noexcept override;
  const window_timing& timing() const noexcept override { return timing_; }
  std::uint64_t held_bytes() const noexcept override { return memory_->held_bytes() + graphs_bytes(); }
  std::uint32_t chunk_rows() const noexcept override { return memory_->chunk_rows(); }
  std::uint32_t graphs() const noexcept override;

 private:
  using clock = std::chrono::steady_clock;
  static double ms_since(clock::time_point began) { return std::chrono::duration<double, std::milli>(clock::now() - began).count(); }
  struct graph_key {
    std::uint32_t n_rows, chunks;
    bool resident;
    bool apart;  // every row is of another session
    auto operator<=>(const graph_key&) const = default;
  };
  struct captured_graph {
    graph_handle graph;           // null: it could not be captured, for want of memory
    std::uint32_t last_used = 0;  // the number of a window
    std::uint64_t size_bytes = 0; // by which the driver's free figure fell when it was made; others on the GPU may have had a part in it
  };
  // An expert with all its places in a chunk of many rows: [first, first + n).
  struct group {
    std::uint32_t expert, first, n;
    bool in_slot;
  };

  stage(std::shared_ptr<const device> on, std::unique_ptr<stage_memory> memory, miss_pool& misses, const stage_description& what);

  void capture_usual();
  graph_handle captured(const graph_key& key);
  void drop_graphs(std::size_t count_max, const graph_key* but = nullptr);
  std::uint64_t graphs_bytes() const noexcept;

  result<void> run_chunk(const stage_window& what, std::uint32_t begin, std::uint32_t end, float* x);
  void write_input(const stage_window& what, std::uint32_t begin, std::uint32_t n, const float* x);
  void refresh_experts(const stage_window& what);

  // Few rows.
  result<void> run_few(const stage_window& what, std::uint32_t n, std::uint32_t chunks);
  void enqueue_few(const graph_key& what);
  void enqueue_layer_few(std::uint32_t layer, const graph_key& what, const window_input& input);
  cudaGraphExec_t graph_for(const graph_key& key);
  void answer_bell(std::uint32_t n);
  void count_copied(const stage_window& what, std::uint32_t n);
  void use_ways(bool beside_copies);
  miss_share* share_of(std::uint32_t layer) noexcept;  // null: none was measured
  void learn_way(std::uint32_t layer, std::uint32_t n_misses, double ms) noexcept;
  result<double> median_ms(std::span<const expert_entry> experts, std::span<const std::uint32_t> layers, std::uint32_t n, std::uint32_t on_cpu);
  result<double> ms_of(std::uint32_t layer, std::span<const expert_entry> experts, std::uint32_t on_cpu);

  // Many rows.
  result<void> run_many(const stage_window& what, std::uint32_t begin, std::uint32_t n);
  void enqueue_attention(const layer_on_device& layer, std::uint32_t n, const window_input& input, std::uint32_t chunks, bool apart);
  void group_picks(const stage_window& what, std::uint32_t layer, std::uint32_t begin, std::uint32_t n);
  void write_tiles(const stage_window& what, std::uint32_t layer);
  void compute_groups(std::uint32_t layer, std::size_t first, std::size_t last);
  void stream_misses(const stage_window& what, std::uint32_t layer, std::size_t first_miss);
  void enqueue_logits(const stage_window& what, std::uint32_t begin, std::uint32_t n, const float* x);

  result<void> settle(bool with_bell, std::uint32_t n);
  result<void> await_stream(const char* what);
  result<void> lost(const std::string& why);

  std::shared_ptr<const device> device_;
  std::unique_ptr<stage_memory> memory_;
  miss_pool& misses_;
  bool store_pinned_;
  std::chrono::milliseconds doorbell_timeout_;
  rope_table rope_;
  stream_handle stream_, copies_;
  event_handle ready_[2], free_[2];
  std::map<graph_key, captured_graph> graphs_;

  std::uint32_t window_number_ = 0;
  std::uint32_t bell_handled_ = 0;
  std::optional<std::uint64_t> experts_version_;
  std::map<decltype(layer_on_device::expert_formats), miss_share> shares_;  // by the formats of a layer's experts
  std::optional<bool> ways_all_on_cpu_;      // as the GPU has them; none: it has none yet, or others
  std::size_t sampled_ = 0;                  // of the last run
  std::vector<group> groups_;
  std::vector<std::uint32_t> counts_;        // [n_experts], scratch of group_picks
  std::vector<std::uint32_t> tiles_before_;  // [groups + 1]: tiles before each group
  std::optional<error> lost_;
  window_timing timing_;
};

}  // namespace ebb::kernels::cuda

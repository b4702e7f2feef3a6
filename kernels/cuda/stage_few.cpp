// kernels/cuda/stage_few.cpp: windows of few rows: one sequence of launches, captured and replayed, that rings for misses.
#include "kernels/cuda/stage.hpp"
#include "config/assert.hpp"
#include "kernels/cuda/upload.hpp"
#include <algorithm>
#include <bit>

namespace ebb::kernels::cuda {
namespace {

// One takes some hundred KiB. More is what somebody else took of the GPU at the same time.
constexpr std::uint64_t graph_bytes_max = 4u << 20;

std::uint64_t free_now() {
  std::size_t free_bytes = 0, total_bytes = 0;
  return cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess ? free_bytes : 0;
}

}  // namespace

result<void> stage::run_few(const stage_window& what, std::uint32_t n, std::uint32_t chunks) {
  if (!what.resident) use_ways(what.link_busy);
  // What a window reads was sent before, and capturing forgets errors.
  if (auto begun = check(cudaGetLastError(), "a launch failed"); !begun) return lost(begun.error().text);
  const std::uint32_t bucket = std::min(std::bit_ceil(chunks), memory_->chunks_of(memory_->shape().context - 1));
  bool apart = true;
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::uint32_t other = 0; other < i; ++other) apart = apart && what.rows[i].session != what.rows[other].session;
  }
  const graph_key key{n, bucket, what.resident, apart};
  // Rows of one session together are the end of a prompt, which does not come again.
  cudaGraphExec_t graph = apart ? graph_for(key) : nullptr;
  if (graph != nullptr && cudaGraphLaunch(graph, stream_.get()) != cudaSuccess) {
    cudaGetLastError();
    graph = nullptr;
  }
  if (graph == nullptr) enqueue_few(key);
  if (auto settled = settle(!what.resident, n); !settled) return settled;
  if (!what.resident) count_copied(what, n);
  if (!memory_->has_output()) return {};
  const std::size_t n_vocab = memory_->shape().n_vocab;
  for (std::size_t i = 0; i < what.sampled.size(); ++i) {
    if (what.sampled[i] != i) std::copy_n(memory_->logits_host + what.sampled[i] * n_vocab, n_vocab, memory_->logits_host + i * n_vocab);
  }
  sampled_ = what.sampled.size();
  return {};
}

// What the GPU copied of the store: the experts that were picked, in no slot, and not the CPU's. One that two rows picked counts twice.
void stage::count_copied(const stage_window& what, std::uint32_t n) {
  const stage_shape& shape = memory_->shape();
  std::uint32_t absent = 0;
  for (std::uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    for (std::uint32_t row = 0; row < n; ++row) {
      for (const std::uint32_t expert : picked(layer, row)) absent += what.experts[std::size_t{layer} * shape.n_experts + expert].in_slot ? 0 : 1;
    }
  }
  timing_.misses_copied += absent - timing_.misses_cpu;
}

std::uint32_t stage::graphs() const noexcept {
  return static_cast<std::uint32_t>(std::count_if(graphs_.begin(), graphs_.end(), [](const auto& known) { return known.second.graph != nullptr; }));
}

cudaGraphExec_t stage::graph_for(const graph_key& key) {
  if (const auto known = graphs_.find(key); known != graphs_.end()) {
    known->second.last_used = window_number_;
    return known->second.graph.get();
  }
  drop_graphs(limits::graphs_max - 1);
  captured_graph& fresh = graphs_[key];
  fresh.last_used = window_number_;
  const std::uint64_t free_before = free_now();
  fresh.graph = captured(key);
  const std::uint64_t free_after = free_now();
  if (fresh.graph != nullptr) fresh.size_bytes = std::min(free_before - std::min(free_before, free_after), graph_bytes_max);
  drop_graphs(limits::graphs_max, &key);
  return fresh.graph.get();
}

// Null where it cannot be captured, for want of memory.
graph_handle stage::captured(const graph_key& key) {
  graph_handle graph;
  if (cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
    enqueue_few(key);
    cudaGraph_t recorded = nullptr;
    if (cudaStreamEndCapture(stream_.get(), &recorded) == cudaSuccess) {
      cudaGraphExec_t made = nullptr;
      if (cudaGraphInstantiate(&made, recorded, 0) == cudaSuccess) graph.reset(made);
      if (graph != nullptr && cudaGraphUpload(made, stream_.get()) != cudaSuccess) graph.reset();  // its first launch would
    }
    if (recorded != nullptr) cudaGraphDestroy(recorded);
  }
  cudaGetLastError();
  return graph;
}

std::uint64_t stage::graphs_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [key, known] : graphs_) sum += known.size_bytes;
  return sum;
}

// The least used first, until no more than `count_max` are held and they fit their budget; `but` stays, since it is about to be used.
void stage::drop_graphs(std::size_t count_max, const graph_key* but) {
  while (graphs_.size() > count_max || graphs_bytes() > limits::graphs_bytes_max) {
    auto oldest = graphs_.end();
    for (auto each = graphs_.begin(); each != graphs_.end(); ++each) {
      if (but != nullptr && each->first == *but) continue;
      if (oldest == graphs_.end() || each->second.last_used < oldest->second.last_used) oldest = each;
    }
    if (oldest == graphs_.end()) return;
    graphs_.erase(oldest);
  }
}

void stage::enqueue_few(const graph_key& what) {
  const stage_shape& shape = memory_->shape();
  const std::uint32_t n = what.n_rows;
  const window_input input = memory_->input_at(memory_->input, n);
  upload(memory_->input, memory_->input_host, input.size_bytes, stream_.get());
  for (std::uint32_t layer = 0; layer < shape.n_layers; ++layer) enqueue_layer_few(layer, what, input);
  if (!memory_->has_output()) {
    cudaMemcpyAsync(memory_->x_host, input.x, std::size_t{n} * shape.d_model * sizeof(float), cudaMemcpyDeviceToHost, stream_.get());
    return;
  }
  norm_and_quantise(input.x, nullptr, memory_->output_norm, shape.rms_eps, n, memory_->head, stream_.get());
  const matvec_job job{memory_->output, memory_->logits};
  matvec(&job, 1, memory_->head, n, stream_.get());
  cudaMemcpyAsync(memory_->logits_host, memory_->logits, std::size_t{n} * shape.n_vocab * sizeof(float), cudaMemcpyDeviceToHost, stream_.get());
}

void stage::enqueue_layer_few(std::uint32_t number, const graph_key& what, const window_input& input) {
  const stage_shape& shape = memory_->shape();
  const std::uint32_t n = what.n_rows;
  const bool resident = what.resident;
  std::uint32_t* const picked = memory_->picked_host + std::size_t{number} * shape.rows_max * shape.top_k;
  const layer_on_device& layer = memory_->layers[number];
  stage_memory& m = *memory_;
  const cudaStream_t on = stream_.get();
  norm_and_quantise(input.x, nullptr, layer.attn_norm, shape.rms_eps, n, m.normed, on);
  const matvec_job qkv[] = {{layer.attn_q, m.q}, {layer.attn_k, m.k}, {layer.attn_v, m.v}};
  matvec(qkv, 3, m.normed, n, on);
  enqueue_attention(layer, n, input, what.chunks, what.apart);
  const matvec_job output{layer.attn_output, input.x, true};
  matvec(&output, 1, m.attended, n, on);

  norm_and_quantise(input.x, nullptr, layer.ffn_norm, shape.rms_eps, n, m.normed, on);
  const matvec_job router{layer.router, m.router_logits};
  matvec(&router, 1, m.normed, n, on);
  dispatch way{.rank = {m.router_logits, n, shape.n_experts, shape.top_k, picked, m.pair_weight},
        .experts = m.experts + std::size_t{number} * shape.n_experts,
        .pairs = m.pairs,
        .staging = m.staging + number,
        .place = {m.spare, m.spare_bytes, {layer.expert_bytes[0], layer.expert_bytes[1], layer.expert_bytes[2]}, store_pinned_ ? m.spare_count : 0},
        .cpu_of = m.cpu_of + std::size_t{number} * (doorbell_misses_max + 1),
        .window_number = input.number,
        .layer = number,
        .n_layers = shape.n_layers,
        .normed = m.normed,
        .posted = {m.posted[0], m.posted[1]}};
  if (!resident) way.bell = m.bell;
  dispatch_experts(way, on);
  if (!resident) fetch_staged(way.staging, way.place, on);
  const expert_pass experts{.pairs = m.pairs,
                            .weight = m.pair_weight,
                            .n_rows = n,
                            .top_k = shape.top_k,
                            .d_model = shape.d_model,
                            .d_ff = shape.d_ff,
                            .formats = {layer.expert_formats[0], layer.expert_formats[1], layer.expert_formats[2]},
                            .normed = m.normed,
                            .hidden = m.hidden,
                            .arrivals = m.hidden_arrivals,
                            .cpu_out = resident ? nullptr : m.cpu_out,
                            .x = input.x};
  expert_hidden(experts, on);
  if (!resident) await_misses({m.bell, way.staging, input.number, number, shape.n_layers, shape.d_model, m.results, m.cpu_out,
                               static_cast<std::uint64_t>(std::chrono::nanoseconds(doorbell_timeout_).count())}, on);
  expert_down(experts, on);
}

void stage::answer_bell(std::uint32_t n) {
  const auto began = clock::now();
  const mailslot& bell = *memory_->bell;
  const std::uint32_t n_misses = bell.n_misses;
  EBB_ASSERT(bell.layer < memory_->shape().n_layers);
  EBB_ASSERT(n_misses <= doorbell_misses_max);
  for (std::uint32_t i = 0; i < n_misses; ++i) EBB_ASSERT(bell.misses[i].row < n);
  activations x;
  x.n_cols = memory_->shape().d_model;
  for (unsigned p = 0; p < 2; ++p) x.part[p] = {memory_->posted[p].q, memory_->posted[p].d, memory_->posted[p].sum};
  misses_.compute(bell.layer, {bell.misses, n_misses}, x, memory_->results);
  const double took_ms = ms_since(began);
  learn_way(bell.layer, n_misses, took_ms);
  timing_.misses_cpu += n_misses;
  timing_.misses_ms += took_ms;
}

}  // namespace ebb::kernels::cuda

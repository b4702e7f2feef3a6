#include "kernels/cuda/stage.hpp"
#include "config/assert.hpp"
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <thread>

namespace ebb::kernels::cuda {
namespace {

constexpr std::chrono::seconds window_timeout{30};       // without a sign from the GPU; longer than the doorbell's own, which ends first and says more
constexpr std::chrono::milliseconds spin_time{2};        // a waiting thread spins so long, then sleeps between looks
constexpr std::chrono::microseconds nap{50};
constexpr std::size_t graphs_max = 32;                   // some hundred KiB each; batch sizes and lengths in use are fewer
constexpr std::uint32_t batch_of_misses = stage_memory::spare_count / 2;

double ms_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
}

activation_buffer from_row(const activation_buffer& all, std::size_t row) {
  activation_buffer part = all;
  part.x += row * all.n_cols;
  for (quantised_buffer& of : part.part) {
    if (of.q == nullptr) continue;
    of.q += row * all.n_cols;
    of.d += row * all.n_cols / 32;
    of.sum += row * all.n_cols / 32;
  }
  return part;
}

template <class Handle, class Make>
result<void> make_handle(Handle& to, Make make, const char* what) {
  typename Handle::pointer raw = nullptr;
  if (auto made = check(make(&raw), what); !made) return made;
  to.reset(raw);
  return {};
}

}  // namespace

stage::stage(int device, std::unique_ptr<stage_memory> memory, miss_pool& misses, const stage_description& what)
    : device_(device),
      memory_(std::move(memory)),
      misses_(misses),
      store_pinned_(what.store_pinned),
      doorbell_timeout_(what.doorbell_timeout),
      rope_(what.shape.rope_base, what.shape.head_dim / 2) {}

result<std::unique_ptr<stage>> stage::make(int device, const stage_description& what, miss_pool& misses) {
  if (auto current = check(cudaSetDevice(device), "no context"); !current) return fail(current.error());
  auto memory = stage_memory::make(what);
  if (!memory) return fail(memory.error());
  std::unique_ptr<stage> made(new stage(device, std::move(*memory), misses, what));
  const auto new_stream = [](cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking); };
  const auto new_event = [](cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDisableTiming); };
  for (stream_handle* stream : {&made->stream_, &made->copies_}) {
    if (auto got = make_handle(*stream, new_stream, "no stream"); !got) return fail(got.error());
  }
  for (event_handle* event : {&made->ready_[0], &made->ready_[1], &made->free_[0], &made->free_[1]}) {
    if (auto got = make_handle(*event, new_event, "no event"); !got) return fail(got.error());
  }
  made->capture_usual();
  return made;
}

// The graphs that every answer needs, before anybody asks what is free: what graphs take is then taken, and later ones use the same memory again.
void stage::capture_usual() {
  if (!memory_->pairs_alone()) return;
  const std::uint32_t rows = std::min(memory_->shape().n_sessions, doorbell_rows_max);
  for (std::uint32_t n = 1; n <= rows && n * memory_->shape().top_k <= doorbell_misses_max; ++n) {
    for (const bool resident : {true, false}) {
      graph_for({n, 1, resident, true});
    }
  }
  cudaStreamSynchronize(stream_.get());
}

// A GPU that did not answer may never do: what it might still use is left to the end of the process, since freeing it would wait.
stage::~stage() {
  cudaSetDevice(device_);
  if (!lost_) {
    cudaStreamSynchronize(stream_.get());
    return;
  }
  memory_->abandon();
  for (auto& known : graphs_) static_cast<void>(known.second.graph.release());
}

result<void> stage::lost(const std::string& why) {
  lost_ = error{errc::card_lost, "cuda:" + std::to_string(device_) + ": " + why};
  return fail(*lost_);
}

std::span<const std::uint32_t> stage::picked(std::uint32_t layer, std::uint32_t row) const noexcept {
  const stage_shape& shape = memory_->shape();
  return {memory_->picked_host + (std::size_t{layer} * shape.rows_max + row) * shape.top_k, shape.top_k};
}

std::span<const float> stage::logits() const noexcept { return {memory_->logits_host, sampled_ * memory_->shape().n_vocab}; }

result<void> stage::run(const stage_window& what, float* x) {
  const stage_shape& shape = memory_->shape();
  const auto n = static_cast<std::uint32_t>(what.rows.size());
  EBB_ASSERT(n >= 1);
  EBB_ASSERT(n <= shape.rows_max);
  EBB_ASSERT(!memory_->has_output() || what.sampled.size() <= std::max(shape.sampled_max, doorbell_rows_max));
  EBB_ASSERT(what.experts.size() == std::size_t{shape.n_layers} * shape.n_experts);
  if (lost_) return fail(*lost_);
  if (auto current = check(cudaSetDevice(device_), "no context"); !current) return current;
  const auto began = clock::now();
  timing_ = {.copy_ms_an_expert = timing_.copy_ms_an_expert, .cpu_ms_an_expert = timing_.cpu_ms_an_expert};
  sampled_ = 0;
  refresh_experts(what);
  for (std::uint32_t begin = 0; begin < n; begin += memory_->chunk_rows()) {
    if (auto ran = run_chunk(what, begin, std::min(n, begin + memory_->chunk_rows()), x); !ran) return ran;
  }
  timing_.total_ms = ms_since(began);
  return {};
}

void stage::refresh_experts(const stage_window& what) {
  if (experts_version_ == what.experts_version) return;
  experts_version_ = what.experts_version;
  for (std::size_t i = 0; i < what.experts.size(); ++i) {
    const expert_entry& from = what.experts[i];
    device_expert& to = memory_->experts_host[i];
    for (std::size_t m = 0; m < matrices_per_expert; ++m) to.matrix[m] = reinterpret_cast<const std::uint8_t*>(from.matrix[m]);
    to.in_slot = from.in_slot;
  }
  cudaMemcpyAsync(memory_->experts, memory_->experts_host, what.experts.size() * sizeof(device_expert), cudaMemcpyHostToDevice, stream_.get());
  std::erase_if(graphs_, [](const auto& known) { return known.second.graph == nullptr; });  // there may be room for them now
}

void stage::write_input(const stage_window& what, std::uint32_t begin, std::uint32_t n, const float* x) {
  const stage_shape& shape = memory_->shape();
  const window_input to = memory_->input_at(memory_->input_host, n);
  *to.number = window_number_;
  const std::size_t half = shape.head_dim / 2;
  for (std::uint32_t i = 0; i < n; ++i) {
    const window_row& row = what.rows[begin + i];
    EBB_ASSERT(row.session < shape.n_sessions);
    EBB_ASSERT(row.position < shape.context);
    to.rows[i] = {row.session, row.position};
    rope_.angles(row.position, to.cos + i * half, to.sin + i * half);
  }
  std::copy_n(x + std::size_t{begin} * shape.d_model, std::size_t{n} * shape.d_model, to.x);
}

result<void> stage::run_chunk(const stage_window& what, std::uint32_t begin, std::uint32_t end, float* x) {
  const stage_shape& shape = memory_->shape();
  const std::uint32_t n = end - begin;
  const auto began = clock::now();
  const double waited_before_ms = timing_.waiting_ms + timing_.misses_ms;
  ++window_number_;
  write_input(what, begin, n, x);
  std::uint32_t last_position = 0;
  for (std::uint32_t i = begin; i < end; ++i) last_position = std::max(last_position, what.rows[i].position);
  const bool few = what.rows.size() <= doorbell_rows_max && n * shape.top_k <= doorbell_misses_max && memory_->pairs_alone();
  auto ran = few ? run_few(what, n, memory_->chunks_of(last_position)) : run_many(what, begin, n);
  if (!ran) return ran;
  timing_.upload_ms += ms_since(began) - (timing_.waiting_ms + timing_.misses_ms - waited_before_ms);
  if (!memory_->has_output()) std::copy_n(memory_->x_host, std::size_t{n} * shape.d_model, x + std::size_t{begin} * shape.d_model);
  return {};
}

// --- few rows

result<void> stage::run_few(const stage_window& what, std::uint32_t n, std::uint32_t chunks) {
  if (!what.resident && ways_version_ != what.experts_version && !ways_chosen_) choose_ways(what);
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
  if (graphs_.size() >= graphs_max) {
    graphs_.erase(std::min_element(graphs_.begin(), graphs_.end(), [](const auto& a, const auto& b) { return a.second.last_used < b.second.last_used; }));
  }
  captured_graph& fresh = graphs_[key];
  fresh.last_used = window_number_;
  if (cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
    enqueue_few(key);
    cudaGraph_t recorded = nullptr;
    if (cudaStreamEndCapture(stream_.get(), &recorded) == cudaSuccess) {
      cudaGraphExec_t made = nullptr;
      if (cudaGraphInstantiate(&made, recorded, 0) == cudaSuccess) fresh.graph.reset(made);
      if (fresh.graph != nullptr && cudaGraphUpload(made, stream_.get()) != cudaSuccess) fresh.graph.reset();  // its first launch would
    }
    if (recorded != nullptr) cudaGraphDestroy(recorded);
  }
  cudaGetLastError();
  return fresh.graph.get();
}

void stage::enqueue_few(const graph_key& what) {
  const stage_shape& shape = memory_->shape();
  const std::uint32_t n = what.n_rows;
  const window_input input = memory_->input_at(memory_->input, n);
  cudaMemcpyAsync(memory_->input, memory_->input_host, input.size_bytes, cudaMemcpyHostToDevice, stream_.get());
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

void stage::enqueue_attention(const layer_on_device& layer, std::uint32_t n, const window_input& input, std::uint32_t chunks, bool apart) {
  const stage_shape& shape = memory_->shape();
  const turn_arguments turn{memory_->q, memory_->k, memory_->v, layer.attn_q_norm, layer.attn_k_norm, shape.rms_eps, input.cos, input.sin, input.rows, n,
                            shape.n_heads, layer.kv};
  const bool in_one = apart && chunks == 1;
  if (!in_one) turn_and_store(turn, stream_.get());
  const std::uint32_t stride = chunks * attention_chunk;
  const auto at_once = static_cast<std::uint32_t>(std::clamp<std::size_t>(memory_->scores_max / (std::size_t{shape.n_heads} * stride), 1, n));
  for (std::uint32_t first = 0; first < n; first += at_once) {
    const attention_arguments heads{
        .q = memory_->q + std::size_t{first} * shape.n_heads * shape.head_dim,
        .kv = layer.kv,
        .rows = input.rows + first,
        .n_rows = std::min(at_once, n - first),
        .n_heads = shape.n_heads,
        .chunks = chunks,
        .context_stride = stride,
        .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
        .scores = memory_->scores,
        .chunk_max = memory_->chunk_max,
        .chunk_sum = memory_->chunk_sum,
        .chunk_out = memory_->chunk_out,
        .arrivals = memory_->arrivals,
        .out = from_row(memory_->attended, first)};
    EBB_ASSERT(!in_one || heads.n_rows == n);
    if (in_one) turn_and_attend(turn, heads, stream_.get());
    else attention(heads, stream_.get());
  }
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
        .cpu_of = m.cpu_of,
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
  timing_.misses_cpu += n_misses;
  timing_.misses_ms += ms_since(began);
}

// Waits for the stream, and answers the doorbell meanwhile.
result<void> stage::settle(bool with_bell, std::uint32_t n) {
  if (auto begun = check(cudaGetLastError(), "a launch failed"); !begun) return lost(begun.error().text);
  const auto began = clock::now();
  const double misses_before = timing_.misses_ms;
  auto progress = began;
  const std::atomic_ref<std::uint32_t> rung(memory_->bell->rung), answered(memory_->bell->answered), gave_up(memory_->bell->gave_up);
  for (std::uint32_t looks = 0;; ++looks) {
    if (with_bell) {
      if (const std::uint32_t number = rung.load(std::memory_order_acquire); number != bell_handled_ && gave_up.load(std::memory_order_acquire) == 0) {
        bell_handled_ = number;
        answer_bell(n);
        answered.store(number, std::memory_order_release);
        progress = clock::now();
        continue;
      }
      if (looks % 16 != 0) continue;
    }
    const cudaError_t state = cudaStreamQuery(stream_.get());
    if (state == cudaSuccess) break;
    if (state != cudaErrorNotReady) return lost(check(state, "a window failed").error().text);
    const auto waited = clock::now() - progress;
    if (waited > window_timeout) {
      gave_up.store(1, std::memory_order_release);
      return lost("did not end a window within " + std::to_string(window_timeout.count()) + " s");
    }
    if (waited > spin_time && !with_bell) std::this_thread::sleep_for(nap);
  }
  timing_.waiting_ms += ms_since(began) - (timing_.misses_ms - misses_before);
  if (gave_up.load(std::memory_order_acquire) != 0) {
    return lost("waited " + std::to_string(doorbell_timeout_.count()) + " ms for experts from the CPU in vain");
  }
  return {};
}

// How many of a layer's missing experts the CPU computes while the others are copied: measured once, on experts of this model. Neither way
// changes a bit. The times of the two ways overlap, so the larger of them counts.
void stage::choose_ways(const stage_window& what) {
  ways_version_ = what.experts_version;
  stage_memory& m = *memory_;
  const stage_shape& shape = m.shape();
  constexpr std::uint32_t tried_max = 8;
  const std::uint32_t tried = std::min({tried_max, shape.n_experts, shape.top_k});
  const auto fill = [&](auto of) {
    for (std::uint32_t missing = 0; missing <= doorbell_misses_max; ++missing) m.cpu_of_host[missing] = of(missing);
    cudaMemcpyAsync(m.cpu_of, m.cpu_of_host, (doorbell_misses_max + 1) * sizeof(std::uint32_t), cudaMemcpyHostToDevice, stream_.get());
  };
  ways_chosen_ = true;
  if (!store_pinned_) return fill([](std::uint32_t missing) { return missing; });

  // Every measurement takes experts of another layer, which no cache of the CPU holds.
  std::vector<std::pair<std::uint32_t, std::vector<std::uint32_t>>> layers_with_misses;
  for (std::uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t e = 0; e < shape.n_experts && found.size() < tried; ++e) {
      if (!what.experts[std::size_t{layer} * shape.n_experts + e].in_slot) found.push_back(e);
    }
    if (found.size() == tried) layers_with_misses.emplace_back(layer, std::move(found));
  }
  if (layers_with_misses.empty()) {
    ways_chosen_ = false;  // with so few misses the choice matters little; another residency may have more
    return fill([](std::uint32_t) { return 0u; });
  }
  std::size_t next_layer = 0;
  const auto absent_experts = [&]() -> const auto& { return layers_with_misses[next_layer++ % layers_with_misses.size()]; };
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  constexpr int rounds = 5;
  std::vector<double> copying;
  for (int round = 0; round < rounds; ++round) {
    const auto& [number, absent] = absent_experts();
    staging_list list{};
    list.count = tried;
    for (std::uint32_t i = 0; i < tried; ++i) {
      const expert_entry& from = what.experts[std::size_t{number} * shape.n_experts + absent[i]];
      for (std::size_t which = 0; which < matrices_per_expert; ++which) list.from[i][which] = reinterpret_cast<const std::uint8_t*>(from.matrix[which]);
    }
    cudaMemcpyAsync(m.staging, &list, sizeof list, cudaMemcpyHostToDevice, stream_.get());
    const layer_on_device& layer = m.layers[number];
    const staging_place place{m.spare, m.spare_bytes, {layer.expert_bytes[0], layer.expert_bytes[1], layer.expert_bytes[2]}, m.spare_count};
    cudaStreamSynchronize(stream_.get());
    const auto began = clock::now();
    fetch_staged(m.staging, place, stream_.get());
    cudaStreamSynchronize(stream_.get());
    copying.push_back(ms_since(began) / tried);
  }
  const double copy_ms = median(copying);
  activations x;
  x.n_cols = shape.d_model;
  for (unsigned p = 0; p < 2; ++p) x.part[p] = {m.posted[p].q, m.posted[p].d, m.posted[p].sum};
  std::vector<double> cpu_ms(1, 0.0);  // of so many experts
  for (std::uint32_t n = 1; n <= tried; ++n) {
    std::vector<double> computing;
    for (int round = 0; round < rounds; ++round) {
      const auto& [number, absent] = absent_experts();
      std::vector<miss> misses;
      for (std::uint32_t i = 0; i < n; ++i) misses.push_back({0, absent[i]});
      const auto began = clock::now();
      misses_.compute(number, misses, x, m.results);
      computing.push_back(ms_since(began));
    }
    cpu_ms.push_back(median(computing) + 0.01);  // and the doorbell
  }
  const auto cpu_time = [&](std::uint32_t n) { return n < cpu_ms.size() ? cpu_ms[n] : cpu_ms.back() * n / static_cast<double>(cpu_ms.size() - 1); };
  fill([&](std::uint32_t missing) {
    std::uint32_t best = 0;
    for (std::uint32_t on_cpu = 1; on_cpu <= missing; ++on_cpu) {
      const auto time = [&](std::uint32_t n) { return std::max(cpu_time(n), (missing - n) * copy_ms); };
      if (time(on_cpu) < time(best)) best = on_cpu;
    }
    return best;
  });
  timing_.copy_ms_an_expert = copy_ms;
  timing_.cpu_ms_an_expert = cpu_ms.back() / static_cast<double>(tried);
}

// --- many rows

result<void> stage::run_many(const stage_window& what, std::uint32_t begin, std::uint32_t n) {
  stage_memory& m = *memory_;
  const stage_shape& shape = m.shape();
  const cudaStream_t on = stream_.get();
  const window_input input = m.input_at(m.input, n);
  cudaMemcpyAsync(m.input, m.input_host, input.size_bytes, cudaMemcpyHostToDevice, on);
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
  cudaMemcpyAsync(m.place_row, m.place_row_host, n_pairs * sizeof(std::uint32_t), cudaMemcpyHostToDevice, stream_.get());
  cudaMemcpyAsync(m.place_pair, m.place_pair_host, n_pairs * sizeof(std::uint32_t), cudaMemcpyHostToDevice, stream_.get());
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
    cudaMemcpyAsync(m.tiles + which * m.tiles_max, m.tiles_host + which * m.tiles_max, n_tiles * sizeof(matmul_tile), cudaMemcpyHostToDevice, stream_.get());
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
      for (std::size_t which = 0; which < matrices_per_expert; ++which) {
        const std::uint64_t n_bytes = m.layers[layer].expert_bytes[which];
        cudaMemcpyAsync(to, from.matrix[which], n_bytes, cudaMemcpyHostToDevice, copies_.get());
        to += n_bytes;
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
  cudaMemcpyAsync(m.sampled, m.sampled_host, count * sizeof(std::uint32_t), cudaMemcpyHostToDevice, stream_.get());
  norm_and_quantise(x, m.sampled, m.output_norm, shape.rms_eps, count, m.head, stream_.get());
  for (std::uint32_t done = 0; done < count; done += matvec_rows_max) {
    const matvec_job job{m.output, m.logits + std::size_t{done} * shape.n_vocab};
    matvec(&job, 1, from_row(m.head, done), std::min(matvec_rows_max, count - done), stream_.get());
  }
  cudaMemcpyAsync(m.logits_host + sampled_ * shape.n_vocab, m.logits, std::size_t{count} * shape.n_vocab * sizeof(float), cudaMemcpyDeviceToHost, stream_.get());
  sampled_ += count;
}

}  // namespace ebb::kernels::cuda

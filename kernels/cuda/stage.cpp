#include "kernels/cuda/stage.hpp"
#include "config/assert.hpp"
#include "kernels/cuda/bounded_wait.hpp"
#include "kernels/cuda/upload.hpp"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

namespace ebb::kernels::cuda {
namespace {

template <class Handle, class Make>
result<void> make_handle(Handle& to, Make make, const char* what) {
  typename Handle::pointer raw = nullptr;
  if (auto made = check(make(&raw), what); !made) return made;
  to.reset(raw);
  return {};
}

}  // namespace

stage::stage(std::shared_ptr<const device> on, std::unique_ptr<stage_memory> memory, miss_pool& misses, const stage_description& what)
    : device_(std::move(on)),
      memory_(std::move(memory)),
      misses_(misses),
      store_pinned_(what.store_pinned),
      doorbell_timeout_(what.doorbell_timeout),
      rope_(what.shape.rope_base, what.shape.head_dim / 2) {}

result<std::unique_ptr<stage>> stage::make(std::shared_ptr<const device> on, const stage_description& what, miss_pool& misses) {
  if (auto current = check(cudaSetDevice(on->number()), "no context"); !current) return fail(current.error());
  auto memory = stage_memory::make(what);
  if (!memory) return fail(memory.error());
  std::unique_ptr<stage> made(new stage(std::move(on), std::move(*memory), misses, what));
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
  static_cast<void>(await_stream("capturing graphs"));  // where it fails, so does the first window
}

// A GPU that did not answer may never do: what it might still use is left to the end of the process, since freeing it would wait.
stage::~stage() {
  cudaSetDevice(device_->number());
  if (!lost_ && await_stream("ending")) return;
  memory_->abandon();
  for (auto& known : graphs_) static_cast<void>(known.second.graph.release());
}

result<void> stage::lost(const std::string& why) {
  lost_ = error{errc::card_lost, "cuda:" + std::to_string(device_->number()) + ": " + why};
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
  if (auto current = check(cudaSetDevice(device_->number()), "no context"); !current) return current;
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
  upload(memory_->experts, memory_->experts_host, what.experts.size() * sizeof(device_expert), stream_.get());
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
    to.rows[i] = row;
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

// Waits for the stream where no doorbell rings.
result<void> stage::await_stream(const char* what) {
  if (auto begun = check(cudaGetLastError(), "a launch failed"); !begun) return lost(begun.error().text);
  const cudaError_t state = wait_while(cudaErrorNotReady, [this] { return cudaStreamQuery(stream_.get()); }, limits::gpu_copy_timeout);
  cudaGetLastError();  // "not ready" is no error of the next launch
  if (state == cudaSuccess) return {};
  if (state != cudaErrorNotReady) return lost(check(state, what).error().text);
  device_->give_up();
  return lost(std::string(what) + ": not done within " + std::to_string(limits::gpu_copy_timeout.count() / 1000) + " s");
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
    if (waited > limits::gpu_window_timeout) {
      gave_up.store(1, std::memory_order_release);
      device_->give_up();
      return lost("did not end a window within " + std::to_string(limits::gpu_window_timeout.count()) + " s");
    }
    if (waited > limits::gpu_spin && !with_bell) std::this_thread::sleep_for(limits::gpu_nap);
  }
  timing_.waiting_ms += ms_since(began) - (timing_.misses_ms - misses_before);
  if (gave_up.load(std::memory_order_acquire) != 0) {
    return lost("waited " + std::to_string(doorbell_timeout_.count()) + " ms for experts from the CPU in vain");
  }
  return {};
}

}  // namespace ebb::kernels::cuda

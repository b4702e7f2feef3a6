// What windows take, and where the time goes: of the demo model, or of the one that EBB_TEST_MODEL names.
#include "tests/gpu/run_of_model.hpp"
#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>

using namespace ebb;
using namespace ebb::test;

namespace {

struct window_figures {
  double median_ms, least_ms, most_ms;
  kernels::window_timing timing;  // of the median
};

window_figures measure(run_of_model& run, std::uint32_t n_rows, std::uint32_t first_position, std::uint32_t repeats) {
  const model::shape& dims = run.weights->dims();
  std::vector<std::pair<double, kernels::window_timing>> all;
  std::vector<float> x(std::size_t{n_rows} * dims.d_model);
  for (std::uint32_t repeat = 0; repeat < repeats + 3; ++repeat) {  // the first ones warm up
    const std::uint32_t begin = n_rows == 1 ? first_position + repeat : first_position;
    const auto tokens = noise(n_rows, dims.n_vocab, repeat);
    std::vector<kernels::window_row> rows;
    for (std::uint32_t i = 0; i < n_rows; ++i) rows.push_back({0, begin + i});
    const std::vector<std::uint32_t> sampled{n_rows - 1};
    run.stage->embed(tokens, x.data());
    const auto began = std::chrono::steady_clock::now();
    const auto ran = run.stage->run(rows, sampled, *run.table, x.data(), {.fast_path = run.table->resident()});
    if (!ran) FAIL(ran.error().text);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
    if (repeat >= 3) all.emplace_back(ms, dynamic_cast<model::gpu_stage&>(*run.stage).timing());
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto& middle = all[all.size() / 2];
  return {middle.first, all.front().first, all.back().first, middle.second};
}

void print(const char* what, std::uint32_t n_rows, const window_figures& found) {
  std::printf("%-18s %4u row(s) %9.3f ms (%.3f to %.3f) %8.1f tokens/s   enqueued %.2f ms, CPU misses %u in %.2f ms, copied %u, waited %.2f ms\n", what, n_rows,
              found.median_ms, found.least_ms, found.most_ms, n_rows * 1000 / found.median_ms, found.timing.upload_ms, found.timing.misses_cpu,
              found.timing.misses_ms, found.timing.misses_copied, found.timing.waiting_ms);
  if (n_rows == 1 && found.timing.copy_ms_an_expert > 0) {
    std::printf("    an expert takes %.3f ms to copy and %.3f ms on the CPU, as measured when it was made\n", found.timing.copy_ms_an_expert,
                found.timing.cpu_ms_an_expert);
  }
}

// All experts of a run in one allocation beside its arena, each where it is there.
class plain_slots {
 public:
  explicit plain_slots(const run_of_model& run) : slots_(slots_of(run)), n_experts_(run.weights->dims().n_experts) {
    const std::uint32_t n = run.weights->dims().n_layers * n_experts_;
    const auto taken = cudaMalloc(reinterpret_cast<void**>(&base_), slots_.bytes_of(n));
    if (taken != cudaSuccess) FAIL("no room for the experts a second time: " << cudaGetErrorString(taken));
    for (std::uint32_t slot = 0; slot < n; ++slot) {
      const std::uint64_t at = slots_.offset_of({slot});
      REQUIRE(cudaMemcpy(base_ + at, run.arena->base() + at, slots_.slot_bytes(), cudaMemcpyDeviceToDevice) == cudaSuccess);
    }
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  ~plain_slots() { cudaFree(base_); }
  plain_slots(const plain_slots&) = delete;
  plain_slots& operator=(const plain_slots&) = delete;

  const std::byte* base() const noexcept { return base_; }

  // Makes the windows of a run read its experts from here, or from its arena.
  void use(run_of_model& run, const std::byte* base) const {
    for (std::uint32_t layer = 0; layer < run.weights->dims().n_layers; ++layer) {
      for (std::uint32_t e = 0; e < n_experts_; ++e) run.table->place({layer, e}, base + slots_.offset_of({layer * n_experts_ + e}));
    }
  }

 private:
  static kernels::slot_layout slots_of(const run_of_model& run) {
    return kernels::slot_layout(run.store->experts().expert_bytes_max(0, run.weights->dims().n_layers));
  }

  kernels::slot_layout slots_;
  std::uint32_t n_experts_;
  std::byte* base_ = nullptr;
};

}  // namespace

TEST_CASE("what segments cost against one plain allocation", "[gpu][benchmark][segments]") {
  constexpr std::uint32_t n_pairs = 7, n_windows = 50;
  auto run = run_of_model::on_gpu(demo(), true, [](expert_id) { return true; });
  measure(run, 512, 0, 1);  // keys and values of 512 positions
  const plain_slots plain(run);
  const auto window_ms = [&](const std::byte* base) {
    plain.use(run, base);
    return measure(run, 1, 16, n_windows).median_ms;
  };
  window_ms(plain.base());  // warms up both
  window_ms(run.arena->base());
  std::vector<double> ratios;
  for (std::uint32_t pair = 0; pair < n_pairs; ++pair) {
    const double segmented_ms = window_ms(run.arena->base()), plain_ms = window_ms(plain.base());
    ratios.push_back(segmented_ms / plain_ms);
    std::printf("windows of 1 row, experts in segments of 64 MiB %.4f ms, in one allocation %.4f ms: ratio %.4f\n", segmented_ms, plain_ms, ratios.back());
  }
  std::sort(ratios.begin(), ratios.end());
  const double middle = ratios[ratios.size() / 2];
  std::printf("goal: %-6s segments against one plain allocation, medians of %u windows in %u pairs: %.2f %% slower (%.2f to %.2f), under 1 wanted\n",
              middle < 1.01 ? "met" : "MISSED", n_windows, n_pairs, (middle - 1) * 100, (ratios.front() - 1) * 100, (ratios.back() - 1) * 100);
}

TEST_CASE("what windows take", "[gpu][benchmark][windows]") {
  const auto weights = demo();
  const auto figures = [&](const char* what, auto in_slot) {
    auto run = run_of_model::on_gpu(weights, true, in_slot);
    measure(run, 512, 0, 1);  // keys and values of 512 positions
    print(what, 1, measure(run, 1, 16, 50));
    print(what, 1, measure(run, 1, 500, 50));
    print(what, 4, measure(run, 4, 500, 20));
    print(what, 64, measure(run, 64, 0, 8));
    print(what, 512, measure(run, 512, 0, 8));
  };
  figures("all in slots", [](expert_id) { return true; });
  figures("half in slots", [](expert_id expert) { return expert.index % 2 == 0; });
  figures("none in a slot", [](expert_id) { return false; });
}

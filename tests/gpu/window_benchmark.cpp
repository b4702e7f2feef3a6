// What windows take, and where the time goes: of the demo model, or of the one that EBB_TEST_MODEL names.
#include "tests/gpu/run_of_model.hpp"
#include <chrono>
#include <cstdio>

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
    std::printf("    an expert takes %.3f ms to copy and %.3f ms on the CPU, as measured at the first window with misses\n", found.timing.copy_ms_an_expert,
                found.timing.cpu_ms_an_expert);
  }
}

}  // namespace

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

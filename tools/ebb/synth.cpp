// tools/ebb/synth.cpp: `ebb synth`: writes a model of random weights at the shape of a real one.
#include "tools/ebb/commands.hpp"
#include "tools/ebb/progress_bar.hpp"
#include "tools/exit_code.hpp"
#include "tools/stop_signals.hpp"
#include "tools/synthetic_file.hpp"
#include "bus/to_json.hpp"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

namespace ebb::tools {

int synth(const synth_options& options) {
  const auto model = make_synthetic(options.model);
  if (!model) return report_error(model.error());
  const stop_signals stop;
  const auto began = std::chrono::steady_clock::now();
  const unsigned n_threads = options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  const auto size_bytes = write_synthetic(
      *model, options.out, {.overwrite = options.force, .n_threads = n_threads, .progress = progress_bar("writing"), .stop = stop.token()});
  if (!size_bytes) return report_error(size_bytes.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const model::shape& dims = model->dims;
  if (options.json) {
    std::cout << bus::to_line({{"out", options.out}, {"size_bytes", *size_bytes}, {"layers", dims.n_layers}, {"experts", dims.n_experts},
                          {"experts_used", dims.top_k}, {"vocab", dims.n_vocab}, {"seed", model->seed}, {"seconds", seconds}})
              << std::endl;
  } else {
    const double bytes = static_cast<double>(*size_bytes);
    std::printf("%s: %.1f MiB, %u layers of %u experts, in %.1f s (%.2f GB/s)\n", options.out.c_str(), bytes / (1u << 20), dims.n_layers,
                dims.n_experts, seconds, bytes / 1e9 / seconds);
  }
  return exit_ok;
}

}  // namespace ebb::tools

// tools/ebb/bench.cpp: `ebb bench`: the speed of the main job, prompt and decode, through the actors as a client sees it.
#include "config/limits.hpp"
#include "tools/ebb/local_engine.hpp"
#include "tools/exit_code.hpp"
#include "tools/memory_bandwidth.hpp"
#include "tools/spread.hpp"
#include "bus/to_json.hpp"
#include "tools/wide_prompt.hpp"
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace ebb::tools {
namespace {

constexpr std::chrono::minutes answer_timeout{30};
constexpr std::uint32_t prompt_ids = 8;  // before a decode

struct measurement {
  std::vector<double> prompt_tokens_per_s;
  std::vector<double> decode_tokens_per_s;
  double hit_rate = 0;
};

// Bytes of weights that one token of a single session reads.
double bytes_per_token(const model::checkpoint& weights) {
  double bytes = static_cast<double>(weights.output().row_bytes()) * weights.output().n_rows;
  for (std::uint32_t layer = 0; layer < weights.dims().n_layers; ++layer) {
    const model::layer_weights& dense = weights.layer(layer);
    for (const auto* matrix : {&dense.attn_q, &dense.attn_k, &dense.attn_v, &dense.attn_output, &dense.router}) {
      bytes += static_cast<double>(matrix->row_bytes()) * matrix->n_rows;
    }
    bytes += static_cast<double>(weights.experts().expert_bytes(layer)) * weights.dims().top_k;
  }
  return bytes;
}

result<bus::done> answer(connection& through, std::vector<token_id> prompt, std::uint32_t n_tokens) {
  bus::generate asked;
  asked.ids = std::move(prompt);
  asked.max_tokens = n_tokens;
  asked.temperature = 0.0f;
  asked.ignore_eos = true;
  asked.stream = false;
  auto reply = ask(through, std::move(asked), answer_timeout);
  if (!reply) return fail(reply.error());
  return std::get<bus::done>(reply->body);
}

result<measurement> measure(local_connection& local, const bench_options& options) {
  const std::size_t n_vocab = local.engine().vocabulary().n_vocab();
  measurement all;
  for (std::uint32_t repeat = 0; repeat <= options.repeats; ++repeat) {  // the first run warms up and does not count
    auto prompt = answer(local, wide_prompt(options.prompt_tokens, n_vocab), 1);
    if (!prompt) return fail(prompt.error());
    auto decode = answer(local, wide_prompt(prompt_ids, n_vocab), options.tokens);
    if (!decode) return fail(decode.error());
    if (repeat == 0) continue;
    all.prompt_tokens_per_s.push_back(static_cast<double>(prompt->prompt_tokens) / prompt->prompt_ms * 1000);
    all.decode_tokens_per_s.push_back(decode->tokens_per_s);
    all.hit_rate = decode->hit_rate;
  }
  return all;
}

}  // namespace

int bench(const bench_options& options) {
  auto local = start_local(options.engine);
  if (!local) return report_error(local.error());
  const engine& engine = (*local)->engine();
  if (options.prompt_tokens >= engine.context() || options.tokens + prompt_ids >= engine.context()) {
    return report_error({errc::bad_value, "the context of " + std::to_string(engine.context()) + " tokens is too small for this; lower --tokens or --prompt-tokens"});
  }
  const auto measured = measure(**local, options);
  if (!measured) return report_error(measured.error());
  const spread prompt = spread_of(measured->prompt_tokens_per_s);
  const spread decode = spread_of(measured->decode_tokens_per_s);
  const double bandwidth = read_bandwidth(engine.n_threads());
  const double bytes = bytes_per_token(engine.weights());
  const double share = bytes * decode.median / bandwidth;
  const std::string isa(kernels::cpu::to_string(engine.isa()));
  if (options.json) {
    const auto json_of = [](const spread& of) { return nlohmann::ordered_json{{"min", of.min}, {"median", of.median}, {"max", of.max}}; };
    std::cout << bus::to_line({{"model", options.engine.model},
                          {"isa", isa},
                          {"threads", engine.n_threads()},
                          {"cards", engine.cards().size()},
                          {"prompt_tokens", options.prompt_tokens},
                          {"prompt_tokens_per_s", json_of(prompt)},
                          {"decode_tokens", options.tokens},
                          {"decode_tokens_per_s", json_of(decode)},
                          {"hit_rate", measured->hit_rate},
                          {"bytes_per_token", bytes},
                          {"memory_bytes_per_s", bandwidth},
                          {"memory_share", share}})
              << std::endl;
    return exit_ok;
  }
  std::printf("%s, %u threads, %zu card(s), %u runs\n", isa.c_str(), engine.n_threads(), engine.cards().size(), options.repeats);
  std::printf("prompt  %u tokens: %.1f tokens/s (%.1f to %.1f)\n", options.prompt_tokens, prompt.median, prompt.min, prompt.max);
  std::printf("decode  %u tokens: %.1f tokens/s (%.1f to %.1f), hit rate %.1f %%\n", options.tokens, decode.median, decode.min, decode.max,
              measured->hit_rate * 100);
  std::printf("memory  %.2f MB a token, %.2f GB/s, %.0f %% of the %.1f GB/s that %u threads read\n", bytes / 1e6, bytes * decode.median / 1e9,
              share * 100, bandwidth / 1e9, engine.n_threads());
  return exit_ok;
}

}  // namespace ebb::tools

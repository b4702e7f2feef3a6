// tools/ebb/inspect.cpp: `ebb inspect`: what a model file holds, and what of it fits in memory.
#include "config/utf8.hpp"
#include "model/inspection.hpp"
#include "tools/ebb/commands.hpp"
#include "tools/exit_code.hpp"
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace ebb::tools {
namespace {

using json = nlohmann::ordered_json;

double to_mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1u << 20); }

json to_json(const model::inspection& seen, const inspect_options& options) {
  json out{{"architecture", seen.architecture}, {"name", seen.name}, {"gguf_version", seen.version}, {"size_bytes", seen.size_bytes},
           {"files", seen.files.size()},        {"tensors", seen.n_tensors}};
  for (const auto& share : seen.formats) {
    out["formats"].push_back({{"format", kernels::info(share.format).name}, {"tensors", share.n_tensors}, {"size_bytes", share.size_bytes}});
  }
  out.update({{"layers", seen.n_layers},
              {"experts", seen.n_experts},
              {"experts_used", seen.top_k},
              {"expert_layers", seen.n_expert_layers},
              {"expert_bytes_min", seen.expert_bytes_min},
              {"expert_bytes_max", seen.expert_bytes_max},
              {"experts_bytes", seen.experts_bytes},
              {"dense_bytes", seen.dense_bytes},
              {"chat_template", !seen.chat_obstacle.has_value()},
              {"runs", !seen.obstacle.has_value()}});
  if (seen.obstacle) out["obstacle"] = {{"code", ebb::to_string(seen.obstacle->code)}, {"text", seen.obstacle->text}};
  for (const std::uint64_t mib : options.mib) out["fits"].push_back({{"mib", mib}, {"experts", seen.experts_in(mib)}});
  if (options.keys) {
    for (const auto& key : seen.keys) out["keys"][key.key] = key.value;
  }
  return out;
}

void print(const model::inspection& seen, const inspect_options& options) {
  const auto total = std::uint64_t{seen.n_expert_layers} * seen.n_experts;
  std::printf("%s  %s, GGUF %u, %.1f MiB in %zu file(s), %llu tensors\n", seen.name.empty() ? options.model.c_str() : in_quotes(seen.name).c_str(),
              seen.architecture.empty() ? "no architecture" : in_quotes(seen.architecture).c_str(), seen.version, to_mib(seen.size_bytes),
              seen.files.size(), static_cast<unsigned long long>(seen.n_tensors));
  for (const auto& share : seen.formats) {
    std::printf("  %-8s %5llu tensors %10.1f MiB\n", std::string(kernels::info(share.format).name).c_str(),
                static_cast<unsigned long long>(share.n_tensors), to_mib(share.size_bytes));
  }
  std::printf("experts  %u layers of %u, %u used a token; %.3f to %.3f MiB each, %.1f MiB together; everything else %.1f MiB\n",
              seen.n_expert_layers, seen.n_experts, seen.top_k, to_mib(seen.expert_bytes_min), to_mib(seen.expert_bytes_max),
              to_mib(seen.experts_bytes), to_mib(seen.dense_bytes));
  std::printf("chats    %s\n", seen.chat_obstacle ? ("in the plain form: " + on_one_line(seen.chat_obstacle->text)).c_str() : "in the form of its own template");
  for (const std::uint64_t mib : options.mib) {
    const auto fits = std::min(total, seen.experts_in(mib));
    std::printf("in %llu MiB fit %llu of %llu experts (%.1f %%)\n", static_cast<unsigned long long>(mib), static_cast<unsigned long long>(fits),
                static_cast<unsigned long long>(total), total > 0 ? 100 * static_cast<double>(fits) / static_cast<double>(total) : 0);
  }
  if (options.keys) {
    for (const auto& key : seen.keys) std::printf("  %s = %s\n", in_quotes(key.key).c_str(), on_one_line(key.value).c_str());
  }
  if (seen.obstacle) std::printf("cannot be run: %s [%s]\n", on_one_line(seen.obstacle->text).c_str(), std::string(ebb::to_string(seen.obstacle->code)).c_str());
}

}  // namespace

int inspect(const inspect_options& options) {
  const auto seen = model::inspect(options.model);
  if (!seen) return report_error(seen.error());
  if (options.json) std::cout << to_json(*seen, options).dump(2, ' ', false, json::error_handler_t::replace) << std::endl;
  else print(*seen, options);
  return exit_ok;
}

}  // namespace ebb::tools

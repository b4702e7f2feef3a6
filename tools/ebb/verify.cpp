// tools/ebb/verify.cpp: `ebb verify`: the table of hashes, and whether they are all the same.
#include "tools/ebb/local_engine.hpp"
#include "tools/exit_code.hpp"
#include "tools/verification.hpp"
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace ebb::tools {
namespace {

constexpr const char* default_prompt = "In the beginning";

void print(const verification_row& row) {
  std::printf("%-36s %-7s %s %6llu %9.1f %7.1f %9.2f %8llu %9.2f  %s\n", row.condition.c_str(), row.isa.c_str(), row.hash.c_str(),
              static_cast<unsigned long long>(row.tokens), row.tokens_per_s, row.hit_rate * 100, row.gap_ms_max,
              static_cast<unsigned long long>(row.resizes), row.resize_ms_max, row.same ? "same" : "DIFFERS");
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const verification_row& row) {
  return {{"condition", row.condition}, {"isa", row.isa},         {"hash", row.hash},         {"tokens", row.tokens},
          {"tokens_per_s", row.tokens_per_s}, {"hit_rate", row.hit_rate}, {"gap_ms_max", row.gap_ms_max},
          {"resizes", row.resizes},     {"resize_ms_max", row.resize_ms_max}, {"same", row.same}};
}

}  // namespace

int verify(const verify_options& options) {
  auto engine = options_of(options.engine);
  if (!engine) return report_error(engine.error());
  engine->from.parallel = std::max(engine->from.parallel, 4u);  // the batch of four is one of the conditions
  const verification_options what{.engine = std::move(*engine),
                                  .prompt = options.prompt.empty() ? default_prompt : options.prompt,
                                  .n_tokens = options.tokens,
                                  .n_resizes = options.resizes,
                                  .seed = options.seed};
  if (!options.json) {
    std::printf("%-36s %-7s %-32s %6s %9s %7s %9s %8s %9s\n", "condition", "isa", "hash of the logits", "tokens", "tokens/s", "hits %",
                "gap ms", "resizes", "resize ms");
  }
  const auto same = verify_promise(what, [&](const verification_row& row) {
    if (options.json) std::cout << to_json(row).dump() << std::endl;
    else print(row);
  });
  if (!same) return report_error(same.error());
  if (!options.json) std::puts(*same ? "every hash is the same" : "HASHES DIFFER: please report this with the model and this table");
  return *same ? exit_ok : exit_failed;
}

}  // namespace ebb::tools

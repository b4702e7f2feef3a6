// tools/ebb/logits.cpp: `ebb logits`: the logits of given ids, as raw floats for other programs.
#include "tools/ebb/local_engine.hpp"
#include "tools/exit_code.hpp"
#include "bus/to_json.hpp"
#include "tools/whole_model.hpp"
#include <bit>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

namespace ebb::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is little-endian and is written as it lies in memory");

result<std::vector<token_id>> read_ids(const std::string& path) {
  std::ifstream file(path);
  const auto parsed = nlohmann::json::parse(file, nullptr, false);
  const auto wrong = [&](const std::string& what) { return fail(errc::bad_value, path + ": " + what + "; a JSON list of token ids is expected, such as [40, 77]"); };
  if (!parsed.is_array()) return wrong(parsed.is_discarded() ? "is no JSON" : "is no list");
  if (parsed.empty()) return wrong("is an empty list");
  std::vector<token_id> ids;
  for (const auto& item : parsed) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > 0x7fffffff) return wrong("holds " + item.dump() + ", which is no token id");
    ids.push_back(item.get<token_id>());
  }
  return ids;
}

result<void> write_logits(whole_model& all, std::span<const token_id> ids, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  if (!out) return fail(errc::file_unwritable, path + ": cannot be created; name a file in a folder that can be written");
  auto ran = all.run(ids, [&](std::span<const float> row) {
    out.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(row.size_bytes()));
  });
  if (!ran) return ran;
  out.close();
  if (!out) return fail(errc::file_unwritable, path + ": could not be written to its end; is the disk full?");
  return {};
}

}  // namespace

int logits(const logits_options& options) {
  const auto from = options_of(options.engine);
  if (!from) return report_error(from.error());
  const auto ids = read_ids(options.ids);
  if (!ids) return report_error(ids.error());
  auto weights = model::checkpoint::open(options.engine.model);
  if (!weights) return report_error(weights.error());
  const auto isa = kernels::cpu::choose(from->forced_isa);
  if (!isa) return report_error(isa.error());
  const unsigned n_threads = from->from.threads > 0 ? from->from.threads : std::max(1u, std::thread::hardware_concurrency());
  const std::uint32_t n_vocab = (*weights)->dims().n_vocab;
  auto all = whole_model::make(*weights, *isa, n_threads, (*weights)->dims().context_length);
  if (!all) return report_error(all.error());
  if (auto written = write_logits(**all, *ids, options.out); !written) return report_error(written.error());
  if (options.json) std::cout << bus::to_line({{"out", options.out}, {"rows", ids->size()}, {"vocab", n_vocab}}) << std::endl;
  else std::printf("%s: float32 [%zu, %u]\n", options.out.c_str(), ids->size(), n_vocab);
  return exit_ok;
}

}  // namespace ebb::tools

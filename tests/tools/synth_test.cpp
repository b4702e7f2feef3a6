// Synthetic models: what is in them, that they run, and that they are like a real one where it counts.
#include "kernels/dequantize.hpp"
#include "model/vocabulary.hpp"
#include "tests/tools/support/programs.hpp"
#include "tools/router_skew.hpp"
#include "tools/synthetic_file.hpp"
#include "tools/synthetic_vocabulary.hpp"
#include "tools/whole_model.hpp"
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;
using bus::test::temporary_folder;

namespace {

synthetic_options tiny(std::uint64_t seed = 1) {
  synthetic_options options;
  options.shape = "tiny";
  options.seed = seed;
  return options;
}

synthetic_model made(const synthetic_options& options) {
  auto model = make_synthetic(options);
  if (!model) throw std::runtime_error(model.error().text);
  return std::move(*model);
}

std::filesystem::path written(const synthetic_options& options, const std::filesystem::path& path, unsigned n_threads = 2) {
  const auto size = write_synthetic(made(options), path, {.n_threads = n_threads, .progress = {}, .stop = {}});
  if (!size) throw std::runtime_error(size.error().text);
  return path;
}

std::shared_ptr<const model::checkpoint> opened(const std::filesystem::path& path) {
  auto weights = model::checkpoint::open(path);
  if (!weights) throw std::runtime_error(weights.error().text);
  return *weights;
}

std::vector<token_id> spread_ids(std::uint32_t count, std::uint32_t n_vocab) {
  std::vector<token_id> ids;
  for (std::uint32_t i = 0; i < count; ++i) ids.push_back(static_cast<token_id>(std::uint64_t{i} * 2654435761u % n_vocab));
  return ids;
}

// How often each expert of each layer is picked by a text.
using pick_counts = std::vector<std::vector<std::uint32_t>>;
pick_counts picks_of(const std::filesystem::path& path, std::uint32_t n_tokens) {
  const auto weights = opened(path);
  const model::shape& dims = weights->dims();
  auto all = whole_model::make(weights, kernels::cpu::available().back(), 2, n_tokens);
  REQUIRE(all);
  pick_counts counts(dims.n_layers, std::vector<std::uint32_t>(dims.n_experts));
  std::uint32_t row = 0;
  const auto count = [&](std::span<const float>) {
    for (std::uint32_t layer = 0; layer < dims.n_layers; ++layer) {
      for (const std::uint32_t expert : (*all)->stage().picked(layer, row)) ++counts[layer][expert];
    }
    row = (row + 1) % limits::prompt_chunk_rows;
  };
  REQUIRE((*all)->run(spread_ids(n_tokens, dims.n_vocab), count));
  return counts;
}

double share_of_quarter(std::vector<std::uint32_t> counts) {
  std::ranges::sort(counts, std::greater());
  const auto hot = counts.begin() + hottest_quarter(static_cast<std::uint32_t>(counts.size()));
  return std::accumulate(counts.begin(), hot, 0.0) / std::accumulate(counts.begin(), counts.end(), 0.0);
}

void check_refused(const synthetic_options& options, const std::string& names) {
  const auto refused = make_synthetic(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_value);
  CHECK_THAT(refused.error().text, Catch::Contains(names));
}

struct moments {
  double mean, deviation;
};
moments moments_of(std::span<const float> values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const float value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / n)};
}

// Of the formats that have kernels, but not those with room for any float.
const std::vector<std::string> quantised = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"};

void check_same_on_one_card_and_two(const std::filesystem::path& path) {
  std::set<std::string> hashes;
  for (const std::size_t n_cards : {1, 2}) {
    engine_options options = demo_on(n_cards);
    options.from.model = path;
    const auto local = local_connection::start(options);
    REQUIRE(local);
    auto asked = greedy(12);
    asked.stream = false;
    const auto answer = answer_of<bus::done>(**local, asked);
    CHECK(answer.generated_tokens == 12);
    CHECK_FALSE(answer.text.empty());
    hashes.insert(answer.hash);
  }
  CHECK(hashes.size() == 1);
}

}  // namespace

TEST_CASE("the default is Qwen3-30B-A3B, in the formats and of the size of its Q4_K_M files") {
  const synthetic_model model = made({});
  CHECK(model.dims.n_layers == 48);
  CHECK(model.dims.n_experts == 128);
  std::map<std::string, kernels::format> formats;
  double bytes = 0;
  for (const auto& tensor : model.tensors) {
    formats[tensor.name] = tensor.format;
    bytes += static_cast<double>(tensor.size_bytes());
  }
  CHECK(model.tensors.size() == 48 * 12 + 3);
  CHECK(bytes / 1e9 == Approx(18.55).margin(0.05));
  using kernels::format;
  CHECK(formats["token_embd.weight"] == format::q4_k);
  CHECK(formats["output.weight"] == format::q6_k);
  CHECK(formats["blk.9.ffn_gate_inp.weight"] == format::f32);
  std::vector<std::uint32_t> finer;
  for (std::uint32_t layer = 0; layer < 48; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    CHECK(formats[prefix + "ffn_down_exps.weight"] == formats[prefix + "attn_v.weight"]);
    CHECK(formats[prefix + "ffn_gate_exps.weight"] == format::q4_k);
    if (formats[prefix + "attn_v.weight"] == format::q6_k) finer.push_back(layer);
  }
  CHECK(finer == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35, 38, 41, 42, 43, 44, 45, 46, 47});
}

TEST_CASE("a tiny synthetic model opens with the shape that it was made with") {
  const temporary_folder folder;
  auto options = tiny();
  options.n_layers = 3;
  options.n_experts = 24;
  const auto weights = opened(written(options, folder / "tiny.gguf"));
  CHECK(weights->dims().n_layers == 3);
  CHECK(weights->dims().n_experts == 24);
  CHECK(weights->dims().top_k == 4);
  CHECK(weights->dims().d_model == 256);
  CHECK(weights->dims().d_ff == 256);
  CHECK(weights->dims().n_vocab == 1024);
  CHECK(weights->dims().rope_base == 1e6);
}

TEST_CASE("the odd shape has rows that K-quants cannot have in Q8_0, and all others in the format that was asked for") {
  auto options = tiny();
  options.shape = "odd";
  for (const auto& [formats, down] : std::map<std::string, kernels::format>{
           {"q4_k_m", kernels::format::q8_0}, {"q6_k", kernels::format::q8_0}, {"q5_0", kernels::format::q5_0}, {"f16", kernels::format::f16}}) {
    INFO(formats);
    options.formats = formats;
    for (const auto& tensor : made(options).tensors) {
      if (tensor.name.ends_with("ffn_down_exps.weight")) CHECK(tensor.format == down);
      if (tensor.name.ends_with("ffn_gate_exps.weight") && formats == "q6_k") CHECK(tensor.format == kernels::format::q6_k);
    }
  }
}

TEST_CASE("a model of the odd shape runs through the engine, and answers the same on one card and on two") {
  const temporary_folder folder;
  auto made_of = tiny();
  made_of.shape = "odd";
  check_same_on_one_card_and_two(written(made_of, folder / "odd.gguf"));
}

TEST_CASE("a synthetic vocabulary has as many tokens as asked for, no two alike, and encodes text by its words") {
  for (const std::uint32_t n_vocab : {synthetic_vocab_min, 300u, 1024u, 151936u, synthetic_vocab_max}) {
    const auto spec = synthetic_vocabulary(n_vocab);
    CHECK(spec.tokens.size() == n_vocab);
    CHECK(std::set<std::string>(spec.tokens.begin(), spec.tokens.end()).size() == n_vocab);
    const auto tokenizer = model::tokenizer::make(spec);
    REQUIRE(tokenizer);
    const std::string text = "Call me \xe2\x98\x83, said the people of the house.\n";
    CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
    CHECK(tokenizer->encode("<|im_end|>") == std::vector<token_id>{*tokenizer->eos()});
    CHECK(tokenizer->ends_text(*tokenizer->eos()));
  }
  const auto tokenizer = model::tokenizer::make(synthetic_vocabulary(4096));
  REQUIRE(tokenizer);
  CHECK(tokenizer->encode(" the people of the house").size() == 5);
}

TEST_CASE("drawn values of every format have the deviation asked for, and a mean of 0") {
  const std::uint32_t n_cols = 768, n_values = n_cols * 256;
  for (std::uint32_t number = 0; number < 64; ++number) {
    const auto format = static_cast<kernels::format>(number);
    if (!kernels::format_known(number) || !kernels::info(format).has_kernels) continue;
    INFO(kernels::info(format).name);
    std::vector<std::byte> bytes(kernels::bytes_of(format, n_values));
    counted_random random({7, number});
    draw_values(format, {.deviation = 0.036f, .row_factors = {}}, 0, n_cols, random, bytes);
    std::vector<float> values(n_values);
    kernels::dequantize(format, bytes.data(), n_values, values.data());
    const auto [mean, deviation] = moments_of(values);
    CHECK(deviation == Approx(0.036).epsilon(0.02));
    CHECK(std::abs(mean) < 0.002);
  }
}

TEST_CASE("the same seed gives the same bytes whatever the number of threads, and another seed others") {
  const temporary_folder folder;
  const std::string one = content_of(written(tiny(7), folder / "one", 1));
  CHECK(one.size() > 8u << 20);
  for (const unsigned n_threads : {2u, 7u}) CHECK(content_of(written(tiny(7), folder / ("with_" + std::to_string(n_threads)), n_threads)) == one);
  const std::string other = content_of(written(tiny(8), folder / "other"));
  CHECK(other.size() == one.size());
  CHECK(other != one);
}

TEST_CASE("a synthetic model is a sane network: its logits are finite, of order 1, and differ from token to token") {
  const temporary_folder folder;
  const auto weights = opened(written(tiny(), folder / "tiny.gguf"));
  auto all = whole_model::make(weights, kernels::cpu::available().back(), 2, 256);
  REQUIRE(all);
  std::set<std::size_t> likeliest;
  const auto check = [&](std::span<const float> logits) {
    REQUIRE(std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }));
    const double deviation = moments_of(logits).deviation;
    CHECK(deviation > 0.5);
    CHECK(deviation < 2);
    likeliest.insert(static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin()));
  };
  REQUIRE((*all)->run(spread_ids(200, weights->dims().n_vocab), check));
  CHECK(likeliest.size() > 100);
}

TEST_CASE("experts of every format run through the engine, and answer the same on one card and on two") {
  const temporary_folder folder;
  for (const std::string& format : quantised) {
    INFO(format);
    auto made_of = tiny();
    made_of.formats = format;
    made_of.n_layers = 2;
    const auto path = written(made_of, folder / (format + ".gguf"));
    check_same_on_one_card_and_two(path);
  }
}

TEST_CASE("the hottest quarter of a layer's experts gets the share of picks that was asked for") {
  const temporary_folder folder;
  for (const double skew : {0.4, 0.6}) {
    INFO(skew);
    auto options = tiny(11);
    options.skew = skew;
    const auto counts = picks_of(written(options, folder / std::to_string(skew)), 1024);
    double sum = 0;
    for (const auto& layer : counts) {
      const double share = share_of_quarter(layer);
      CHECK(share == Approx(skew).margin(0.12));
      sum += share;
    }
    CHECK(sum / static_cast<double>(counts.size()) == Approx(skew).margin(0.06));
  }
}

TEST_CASE("the deepest layer of a deep synthetic model tells tokens apart as well as the first") {
  const temporary_folder folder;
  auto options = tiny(5);
  options.n_layers = 16;
  const auto counts = picks_of(written(options, folder / "deep.gguf"), 512);
  for (const auto& layer : counts) {
    CHECK(share_of_quarter(layer) < 0.72);
    CHECK(*std::ranges::max_element(layer) < 512 * 0.55);  // of no expert for nearly every token
  }
}

TEST_CASE("without skew the picks of a synthetic model are nearly even") {
  const temporary_folder folder;
  auto options = tiny(11);
  options.skew = 0.25;
  for (const auto& layer : picks_of(written(options, folder / "even"), 1024)) CHECK(share_of_quarter(layer) < 0.42);
}

TEST_CASE("each layer has other hot experts, and they are those that the seed says") {
  const temporary_folder folder;
  const auto counts = picks_of(written(tiny(3), folder / "tiny.gguf"), 512);
  std::set<std::uint32_t> hottest;
  for (std::uint32_t layer = 0; layer < counts.size(); ++layer) {
    const auto order = hottest_first(3, layer, 32);
    std::uint32_t hot = 0, cold = 0;
    for (std::size_t rank = 0; rank < 8; ++rank) {
      hot += counts[layer][order[rank]];
      cold += counts[layer][order[31 - rank]];
    }
    CHECK(hot > 4 * cold);
    hottest.insert(order.front());
  }
  CHECK(hottest.size() > 1);
}

TEST_CASE("a share of picks comes out as asked for wherever it can be reached, and is refused with its bounds where it cannot") {
  for (const auto& [n_experts, top_k, share] : {std::tuple{128u, 8u, 0.6}, {128u, 8u, 0.9}, {64u, 6u, 0.5}, {32u, 4u, 0.25}, {8u, 2u, 0.45}}) {
    const auto deviations = router_deviations(n_experts, top_k, share);
    REQUIRE(deviations);
    CHECK(deviations->size() == n_experts);
    CHECK(std::ranges::is_sorted(*deviations, std::greater()));
    CHECK(share_of_hottest(*deviations, top_k) == Approx(share).margin(0.01));
  }
  for (const double share : {0.1, 0.95, -1.0, std::nan("")}) {
    const auto refused = router_deviations(16, 8, share);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::bad_value);
    CHECK_THAT(refused.error().text, Catch::Contains("16 experts, of which 8 are picked") && Catch::Contains("0.25 (even) to 0."));
  }
}

TEST_CASE("what no synthetic model can be is refused by name") {
  auto options = tiny();
  options.shape = "tini";
  check_refused(options, "no shape \"tini\"; did you mean \"tiny\"?; there are: qwen3-30b-a3b, tiny");
  options = tiny();
  options.formats = "iq4_xs";
  check_refused(options, "formats \"iq4_xs\" are not known; there are: q4_k_m, f32, ");
  options = tiny();
  options.n_layers = 0;
  check_refused(options, "0 layers: from 1 to ");
  options = tiny();
  options.n_experts = 100000;
  check_refused(options, "100000 experts: from 1 to ");
  options = tiny();
  options.top_k = 33;
  check_refused(options, "33 experts used: from 1 to 32");
  options = tiny();
  options.n_vocab = 258;
  check_refused(options, "258 tokens of vocabulary: from 259 to ");
  options = tiny();
  options.skew = 1.5;
  check_refused(options, "skew 1.50");
}

TEST_CASE("a file that is there is overwritten only when asked for") {
  const temporary_folder folder;
  const auto path = folder / "tiny.gguf";
  std::ofstream(path) << "mine";
  const auto model = made(tiny());
  const auto refused = write_synthetic(model, path, {.progress = {}, .stop = {}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::file_unwritable);
  CHECK_THAT(refused.error().text, Catch::Contains(path.string()) && Catch::Contains("--force"));
  CHECK(content_of(path) == "mine");
  REQUIRE(write_synthetic(model, path, {.overwrite = true, .progress = {}, .stop = {}}));
  CHECK(content_of(path).starts_with("GGUF"));
}

TEST_CASE("a folder is never overwritten, and one that is missing is named") {
  const temporary_folder folder;
  const auto model = made(tiny());
  const auto taken = write_synthetic(model, folder.path(), {.overwrite = true, .progress = {}, .stop = {}});
  REQUIRE_FALSE(taken);
  CHECK_THAT(taken.error().text, Catch::Contains("no regular file"));
  const auto missing = write_synthetic(model, folder / "none" / "tiny.gguf", {.progress = {}, .stop = {}});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == errc::file_unwritable);
  CHECK_THAT(missing.error().text, Catch::Contains((folder / "none").string()));
}

TEST_CASE("a model that is larger than the free space is refused before a byte is written, and what it would replace stays") {
  const temporary_folder folder;
  synthetic_options options;
  options.n_layers = limits::synthetic_layers_max;
  options.n_experts = limits::synthetic_experts_max;
  const auto model = made(options);
  if (std::filesystem::space(folder.path()).available > 40ull << 40) {
    WARN("not tested: the disk has room for any model");
    return;
  }
  std::ofstream(folder / "large.gguf") << "mine";
  const auto refused = write_synthetic(model, folder / "large.gguf", {.overwrite = true, .progress = {}, .stop = {}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::file_unwritable);
  CHECK_THAT(refused.error().text, Catch::Contains("GiB free") && Catch::Contains("--layers"));
  CHECK(content_of(folder / "large.gguf") == "mine");
}

TEST_CASE("a file that is stopped half-way is removed") {
  const temporary_folder folder;
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = write_synthetic(made(tiny()), folder / "tiny.gguf", {.n_threads = 2, .progress = {}, .stop = stop.get_token()});
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == errc::cancelled);
  CHECK_FALSE(std::filesystem::exists(folder / "tiny.gguf"));
}

TEST_CASE("a file that the system does not let grow is removed, and the error names it") {
  const temporary_folder folder;
  const std::string path = (folder / "tiny.gguf").string();
  const outcome ended = run_program({"/bin/sh", "-c", "trap '' XFSZ; ulimit -f 1000; exec \"$0\" synth \"$1\" --shape tiny", EBB_PROGRAM, path});
  CHECK(ended.code == exit_usage);
  CHECK_THAT(ended.err, Catch::Contains(path) && Catch::Contains("[file_unwritable]"));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("ebb synth writes what ebb inspect calls a model that runs, and ebb run answers from it") {
  const temporary_folder folder;
  const std::string path = (folder / "tiny.gguf").string();
  const outcome ended = ebb_runs({"synth", path, "--shape", "tiny", "--layers", "2", "--threads", "2", "--json"});
  CHECK(ended.code == exit_ok);
  const json seen = json::parse(ended.out);
  CHECK(seen["layers"] == 2);
  CHECK(seen["size_bytes"] == std::filesystem::file_size(path));
  const json inspected = json::parse(ebb_runs({"inspect", path, "--json", "--keys"}).out);
  CHECK(inspected["runs"] == true);
  CHECK(inspected["architecture"] == "qwen3moe");
  CHECK(inspected["keys"]["general.file_type"] == "15");
  const outcome answered = ebb_runs({"run", path, "-p", "the people of the house", "-n", "8", "--ignore-eos"});
  CHECK(answered.code == exit_ok);
  CHECK(answered.out.size() > 8);
  check_usage_error(ebb_runs({"synth", path, "--shape", "tiny"}), "--force");
  check_usage_error(ebb_runs({"synth", path, "--shape", "tiny", "--layers", "-1"}), "--layers");
  CHECK(ebb_runs({"synth", path, "--shape", "tiny", "--force"}).code == exit_ok);
}

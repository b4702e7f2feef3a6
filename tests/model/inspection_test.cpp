#include "model/inspection.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/small_model.hpp"
#include "tests/model/support/temporary_folder.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>

namespace ebb::model {
namespace {

using kernels::format;
using test::check_error;
using test::gguf_writer;
namespace small = test::small;

inspection inspected(const gguf_writer& writer) {
  const test::temporary_folder folder;
  auto out = inspect(writer.write(folder / "made.gguf"));
  if (!out) FAIL(out.error().text);
  return *std::move(out);
}

}  // namespace

TEST_CASE("an inspection says what a model is and what its experts weigh") {
  const gguf_writer writer = test::small_model();
  const inspection seen = inspected(writer);
  CHECK(seen.architecture == "qwen3moe");
  CHECK(seen.name == "Small");
  CHECK(seen.version == 3);
  CHECK(seen.size_bytes == writer.bytes().size());
  CHECK(seen.n_tensors == writer.tensors.size());
  CHECK(seen.keys.size() == writer.entries.size());
  CHECK(seen.keys.front().value == "\"qwen3moe\"");
  CHECK(seen.n_layers == small::n_layers);
  CHECK(seen.n_expert_layers == small::n_layers);
  CHECK(seen.n_experts == small::n_experts);
  CHECK(seen.top_k == small::top_k);
  constexpr std::uint64_t blocks = std::uint64_t{small::d_model} * small::d_ff / 32;
  CHECK(seen.expert_bytes_min == blocks * (18 + 20 + 22));
  CHECK(seen.expert_bytes_max == blocks * (18 + 20 + 34));
  CHECK(seen.experts_bytes == small::n_experts * (seen.expert_bytes_min + seen.expert_bytes_max));
  CHECK_FALSE(seen.obstacle.has_value());
}

TEST_CASE("the formats of a file account for every tensor and byte, most bytes first") {
  const gguf_writer writer = test::small_model();
  const inspection seen = inspected(writer);
  std::uint64_t n_tensors = 0, size_bytes = 0;
  for (const format_share& share : seen.formats) {
    n_tensors += share.n_tensors;
    size_bytes += share.size_bytes;
  }
  CHECK(n_tensors == seen.n_tensors);
  CHECK(size_bytes == seen.experts_bytes + seen.dense_bytes);
  CHECK(std::ranges::is_sorted(seen.formats, std::greater(), &format_share::size_bytes));
  const auto halves = std::ranges::find(seen.formats, format::f16, &format_share::format);
  REQUIRE(halves != seen.formats.end());
  CHECK(halves->n_tensors == small::n_layers);
  CHECK(halves->size_bytes == std::uint64_t{small::n_layers} * small::n_kv_heads * small::head_dim * small::d_model * 2);
}

TEST_CASE("as many experts fit as slots of the largest, at most all") {
  inspection seen;
  seen.n_expert_layers = 4;
  seen.n_experts = 8;
  seen.expert_bytes_min = 500000;
  seen.expert_bytes_max = 600000;
  CHECK(seen.experts_in(0) == 0);
  CHECK(seen.experts_in(1) == 1);
  CHECK(seen.experts_in(2) == 3);
  CHECK(seen.experts_in(1000) == 32);
  CHECK(seen.experts_in(std::numeric_limits<std::uint64_t>::max()) == 32);
  CHECK(inspection().experts_in(1000) == 0);
}

TEST_CASE("a model of another architecture is inspected, and says why it cannot be run") {
  gguf_writer writer = test::small_model();
  writer.set("general.architecture", std::string("otherwise"));
  writer.set("otherwise.expert_count", small::n_experts);
  const inspection seen = inspected(writer);
  CHECK(seen.architecture == "otherwise");
  CHECK(seen.n_layers == 0);
  CHECK(seen.n_experts == small::n_experts);
  CHECK(seen.n_expert_layers == small::n_layers);
  CHECK(seen.expert_bytes_max > 0);
  REQUIRE(seen.obstacle.has_value());
  CHECK(seen.obstacle->code == errc::unsupported_architecture);
}

TEST_CASE("a model in a format without kernels is inspected, and says why it cannot be run") {
  gguf_writer writer = test::small_model();
  writer.tensor("blk.1.ffn_gate_exps.weight").format = static_cast<std::uint32_t>(format::iq4_nl);
  const inspection seen = inspected(writer);
  CHECK(seen.expert_bytes_max > seen.expert_bytes_min);
  REQUIRE(seen.obstacle.has_value());
  CHECK(seen.obstacle->code == errc::unsupported_format);
  CHECK_THAT(seen.obstacle->text, Catch::Contains("IQ4_NL"));
}

TEST_CASE("a model whose tokenizer is not known is inspected, and says why it cannot be run") {
  gguf_writer writer = test::small_model();
  writer.set("tokenizer.ggml.model", std::string("llama"));
  const inspection seen = inspected(writer);
  REQUIRE(seen.obstacle.has_value());
  CHECK(seen.obstacle->code == errc::unsupported_tokenizer);
}

TEST_CASE("an inspection says whether the chat template is understood, and if not, why") {
  gguf_writer writer = test::small_model();
  REQUIRE(inspected(writer).chat_obstacle.has_value());
  CHECK(inspected(writer).chat_obstacle->code == errc::missing_key);
  writer.set("tokenizer.chat_template", std::string("{{ messages[0].content }}"));
  CHECK_FALSE(inspected(writer).chat_obstacle.has_value());
  writer.set("tokenizer.chat_template", std::string("{% include 'x' %}"));
  REQUIRE(inspected(writer).chat_obstacle.has_value());
  CHECK_THAT(inspected(writer).chat_obstacle->text, Catch::Contains("include"));
}

TEST_CASE("a file of no experts and no keys is inspected") {
  gguf_writer writer;
  writer.add_tensor("weights", {32}, format::f32);
  const inspection seen = inspected(writer);
  CHECK(seen.architecture.empty());
  CHECK(seen.n_expert_layers == 0);
  CHECK(seen.experts_in(1000) == 0);
  CHECK(seen.dense_bytes == 128);
  CHECK(seen.obstacle.has_value());
}

TEST_CASE("what is no model file is an error of the inspection") {
  const test::temporary_folder folder;
  check_error(inspect(folder / "absent.gguf"), errc::file_unreadable, {"absent.gguf"});
}

}  // namespace ebb::model

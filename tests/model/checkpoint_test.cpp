#include "model/checkpoint.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/small_model.hpp"
#include "tests/model/support/temporary_folder.hpp"
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace ebb::model {
namespace {

using kernels::format;
using test::check_error;
using test::gguf_writer;
namespace small = test::small;

// The errors of opening what a writer made; what is opened ends with its bytes.
result<void> open_made(const gguf_writer& writer) {
  const test::byte_vector bytes = writer.bytes();
  auto file = gguf::parse(bytes, "made.gguf");
  if (!file) return fail(file.error());
  return checkpoint::make(*std::move(file)).map([](const auto&) {});
}

template <class T>
test::byte_vector bytes_of_values(const std::vector<T>& values) {
  test::byte_vector out;
  for (const T value : values) test::append_value(out, value);
  return out;
}

void check_matrix(const kernels::weights& have, const gguf& file, const std::string& name, std::uint32_t n_rows, std::uint32_t n_cols) {
  const gguf_tensor* const tensor = file.find_tensor(name);
  REQUIRE(tensor != nullptr);
  CHECK(have.data == tensor->data);
  CHECK(have.type == tensor->format);
  CHECK(have.n_rows == n_rows);
  CHECK(have.n_cols == n_cols);
}

}  // namespace

TEST_CASE("a checkpoint has the matrices of every layer in the file's own bytes") {
  const test::temporary_folder folder;
  const auto opened = checkpoint::open(test::small_model().write(folder / "small.gguf"));
  REQUIRE(opened.has_value());
  const checkpoint& model = **opened;
  const gguf& file = model.file();
  CHECK(model.family().name == "qwen3moe");
  CHECK(model.dims().n_layers == small::n_layers);
  CHECK(model.experts().n_layers() == small::n_layers);
  constexpr std::uint32_t q_rows = small::n_heads * small::head_dim, kv_rows = small::n_kv_heads * small::head_dim;
  for (std::uint32_t index = 0; index < small::n_layers; ++index) {
    const auto name = [index](const char* behind) { return layer_tensor_name(index, behind); };
    const layer_weights& layer = model.layer(index);
    check_matrix(layer.attn_q, file, name("attn_q.weight"), q_rows, small::d_model);
    check_matrix(layer.attn_k, file, name("attn_k.weight"), kv_rows, small::d_model);
    check_matrix(layer.attn_v, file, name("attn_v.weight"), kv_rows, small::d_model);
    check_matrix(layer.attn_output, file, name("attn_output.weight"), small::d_model, q_rows);
    check_matrix(layer.router, file, name("ffn_gate_inp.weight"), small::n_experts, small::d_model);
  }
  check_matrix(model.token_embedding(), file, "token_embd.weight", small::n_vocab, small::d_model);
  check_matrix(model.output(), file, "output.weight", small::n_vocab, small::d_model);
}

TEST_CASE("norms are copied out as floats, whatever float they are stored as") {
  gguf_writer writer = test::small_model();
  std::vector<float> norm(small::d_model);
  std::vector<std::uint16_t> k_norm(small::head_dim);  // BF16: the upper half of a float
  for (std::size_t i = 0; i < norm.size(); ++i) norm[i] = 1.0f + static_cast<float>(i);
  for (std::size_t i = 0; i < k_norm.size(); ++i) k_norm[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(norm[i]) >> 16);
  writer.tensor("blk.1.attn_norm.weight").data = bytes_of_values(norm);
  writer.tensor("blk.1.attn_k_norm.weight").data = bytes_of_values(k_norm);
  writer.tensor("output_norm.weight").data = bytes_of_values(norm);
  const test::byte_vector bytes = writer.bytes();
  auto file = gguf::parse(bytes, "made.gguf");
  REQUIRE(file.has_value());
  const auto model = checkpoint::make(*std::move(file));
  REQUIRE(model.has_value());
  CHECK((*model)->layer(1).attn_norm == norm);
  CHECK((*model)->layer(1).attn_k_norm == std::vector<float>(norm.begin(), norm.begin() + small::head_dim));
  CHECK((*model)->output_norm() == norm);
}

TEST_CASE("a model without an output matrix uses its embedding") {
  const auto opened = checkpoint::open(EBB_DEMO_MODEL);
  REQUIRE(opened.has_value());
  const checkpoint& model = **opened;
  REQUIRE(model.file().find_tensor("output.weight") == nullptr);
  CHECK(model.output().data == model.token_embedding().data);
  CHECK(model.output().n_rows == 4096);
  CHECK(model.dims().n_layers == 6);
  CHECK(model.dims().n_experts == 32);
  CHECK(model.dims().top_k == 4);
  CHECK(model.layer(5).attn_q.n_rows == 4 * 64);
}

TEST_CASE("warming tells how far it is, up to all") {
  const auto model = checkpoint::open(EBB_DEMO_MODEL);
  REQUIRE(model.has_value());
  std::vector<double> told;
  (*model)->warm([&told](double share) { told.push_back(share); });
  REQUIRE(told.size() > 1);
  CHECK(std::ranges::is_sorted(told));
  CHECK(told.front() > 0);
  CHECK(told.back() == 1);
}

TEST_CASE("a tensor that is needed and absent is named") {
  gguf_writer writer = test::small_model();
  const auto name = GENERATE(as<std::string>(), "output_norm.weight", "blk.0.attn_norm.weight", "blk.1.attn_q.weight",
                             "blk.1.attn_k_norm.weight", "blk.1.ffn_gate_inp.weight");
  writer.erase_tensor(name);
  check_error(open_made(writer), errc::missing_key, {"made.gguf", "\"" + name + "\""});
}

TEST_CASE("a tensor of another shape than the keys say is corrupt") {
  gguf_writer writer = test::small_model();
  writer.tensor("blk.1.attn_k.weight").dims = {small::d_model, 16};
  check_error(open_made(writer), errc::corrupt, {"made.gguf", "\"blk.1.attn_k.weight\"", "[32, 16]", "[32, 32]"});
  writer = test::small_model();
  writer.tensor("token_embd.weight").dims = {small::d_model * 2, small::n_vocab / 2};
  check_error(open_made(writer), errc::corrupt, {"\"token_embd.weight\"", "[64, 136]"});
}

TEST_CASE("a dense tensor without kernels is refused with its type") {
  gguf_writer writer = test::small_model();
  writer.tensor("blk.0.attn_output.weight").format = static_cast<std::uint32_t>(format::iq4_nl);
  check_error(open_made(writer), errc::unsupported_format, {"\"blk.0.attn_output.weight\"", "IQ4_NL", "Q4_0"});
}

TEST_CASE("a router or a norm that is not stored as floats is refused") {
  gguf_writer writer = test::small_model();
  const auto name = GENERATE(as<std::string>(), "blk.0.ffn_gate_inp.weight", "blk.0.attn_norm.weight");
  writer.tensor(name).format = static_cast<std::uint32_t>(format::q8_0);
  check_error(open_made(writer), errc::unsupported_format, {"\"" + name + "\"", "Q8_0", "F32, F16, BF16"});
}

TEST_CASE("a tensor that the family does not have is refused, since answers without it would be wrong") {
  gguf_writer writer = test::small_model();
  const auto name =
      GENERATE(as<std::string>(), "blk.0.attn_q.bias", "blk.1.ffn_gate.weight", "blk.2.attn_norm.weight", "rope_freqs.weight");
  writer.add_tensor(name, {32}, format::f32);
  check_error(open_made(writer), errc::unsupported_architecture, {"made.gguf", "\"" + name + "\"", "qwen3moe"});
}

TEST_CASE("a dense layer between layers of experts is refused") {
  gguf_writer writer = test::small_model();
  for (const char* name : {"gate", "up", "down"}) {
    writer.tensor(std::string("blk.1.ffn_") + name + "_exps.weight").name = std::string("blk.1.ffn_") + name + ".weight";
  }
  check_error(open_made(writer), errc::unsupported_architecture, {"\"blk.1.ffn_gate.weight\""});
}

}  // namespace ebb::model

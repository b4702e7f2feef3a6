#include "model/architecture.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/small_model.hpp"
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>

namespace ebb::model {
namespace {

using test::check_error;
using test::gguf_writer;

result<shape> read_shape_of(const gguf_writer& writer) {
  const test::byte_vector bytes = writer.bytes();
  const auto file = gguf::parse(bytes, "made.gguf");
  if (!file) return fail(file.error());
  const auto family = find_architecture(*file);
  if (!family) return fail(family.error());
  return read_shape(*file, **family);
}

template <class T>
result<shape> shape_with(const std::string& key, const T& value) {
  gguf_writer writer = test::small_model();
  writer.set("qwen3moe." + key, value);
  return read_shape_of(writer);
}

result<shape> shape_without(const std::string& key) {
  gguf_writer writer = test::small_model();
  writer.erase("qwen3moe." + key);
  return read_shape_of(writer);
}

}  // namespace

TEST_CASE("a shape is what the keys and the embedding say") {
  const auto dims = read_shape_of(test::small_model());
  REQUIRE(dims.has_value());
  CHECK(dims->n_layers == test::small::n_layers);
  CHECK(dims->n_vocab == test::small::n_vocab);
  CHECK(dims->context_length == test::small::context_length);
  CHECK(dims->d_model == test::small::d_model);
  CHECK(dims->n_heads == test::small::n_heads);
  CHECK(dims->n_kv_heads == test::small::n_kv_heads);
  CHECK(dims->head_dim == test::small::head_dim);
  CHECK(dims->n_experts == test::small::n_experts);
  CHECK(dims->top_k == test::small::top_k);
  CHECK(dims->d_ff == test::small::d_ff);
  CHECK(dims->rms_eps == 1e-6f);
  CHECK(dims->rope_base == 1e6);
}

TEST_CASE("keys that may be absent have the format's values") {
  CHECK(shape_without("rope.freq_base")->rope_base == 10000);
  CHECK(shape_without("attention.head_count_kv")->n_kv_heads == test::small::n_heads);
  gguf_writer writer = test::small_model();
  writer.erase("qwen3moe.attention.key_length");
  writer.erase("qwen3moe.attention.value_length");
  CHECK(read_shape_of(writer)->head_dim == test::small::d_model / test::small::n_heads);
}

TEST_CASE("a key that is needed and absent is named") {
  const auto key = GENERATE(as<std::string>(), "block_count", "context_length", "embedding_length", "attention.head_count", "expert_count",
                            "expert_used_count", "expert_feed_forward_length", "attention.layer_norm_rms_epsilon");
  check_error(shape_without(key), errc::missing_key, {"made.gguf", "\"qwen3moe." + key + "\""});
}

TEST_CASE("a count of zero is named") {
  const auto key =
      GENERATE(as<std::string>(), "block_count", "context_length", "embedding_length", "attention.head_count", "attention.head_count_kv",
               "attention.key_length", "expert_count", "expert_used_count", "expert_feed_forward_length");
  check_error(shape_with(key, std::uint32_t{0}), errc::bad_value, {"made.gguf", "\"qwen3moe." + key + "\"", "is 0"});
}

TEST_CASE("numbers that no model can have are named") {
  check_error(shape_with("attention.layer_norm_rms_epsilon", -1e-6f), errc::bad_value, {"rms_epsilon", "-1e-06"});
  check_error(shape_with("rope.freq_base", std::numeric_limits<float>::quiet_NaN()), errc::bad_value, {"freq_base", "nan"});
  check_error(shape_with("rope.freq_base", std::numeric_limits<float>::infinity()), errc::bad_value, {"freq_base", "inf"});
  check_error(shape_with("block_count", std::string("two")), errc::bad_value, {"block_count", "\"two\""});
}

TEST_CASE("keys that contradict each other are refused") {
  check_error(shape_with("attention.head_count", 5u), errc::bad_value, {"attention.head_count\"", "multiple of attention.head_count_kv"});
  check_error(shape_with("expert_used_count", 5u), errc::bad_value, {"expert_used_count", "only 4 experts"});
}

TEST_CASE("widths that the kernels cannot compute are refused") {
  check_error(shape_with("attention.key_length", 12u), errc::bad_value, {"key_length", "is 12", "multiple of 8"});
  check_error(shape_with("embedding_length", 40u), errc::bad_value, {"embedding_length", "is 40", "multiple of 32"});
  check_error(shape_with("embedding_length", 0x80000000u), errc::bad_value, {"embedding_length", "exceed"});
  check_error(shape_with("expert_feed_forward_length", 33u), errc::bad_value, {"expert_feed_forward_length", "multiple of 32"});
  gguf_writer writer = test::small_model();
  writer.set("qwen3moe.attention.head_count", 6u);
  writer.set("qwen3moe.attention.key_length", 8u);
  check_error(read_shape_of(writer), errc::bad_value, {"head_count", "head of 8", "multiple of 32"});
}

TEST_CASE("heads of which only a part is a value or turns are refused") {
  check_error(shape_with("attention.value_length", 8u), errc::bad_value, {"value_length", "is 8", "16"});
  check_error(shape_with("rope.dimension_count", 8u), errc::bad_value, {"rope.dimension_count", "is 8", "16"});
}

TEST_CASE("scaled rotation is refused, since answers without it would be wrong") {
  CHECK(shape_with("rope.scaling.type", std::string("none")).has_value());
  check_error(shape_with("rope.scaling.type", std::string("yarn")), errc::unsupported_architecture, {"rope.scaling.type", "\"yarn\""});
  CHECK(shape_with("rope.scaling.factor", 1.0f).has_value());
  check_error(shape_with("rope.scaling.factor", 4.0f), errc::unsupported_architecture, {"rope.scaling.factor", "is 4"});
}

TEST_CASE("features that would change the answer are refused unless they say that they are not used") {
  CHECK(shape_with("attention.sliding_window", 0u).has_value());
  check_error(shape_with("attention.sliding_window", 4096u), errc::unsupported_architecture, {"sliding_window", "is 4096"});
  check_error(shape_with("leading_dense_block_count", 1u), errc::unsupported_architecture, {"leading_dense_block_count"});
  CHECK(shape_with("expert_gating_func", 1u).has_value());
  check_error(shape_with("expert_gating_func", 2u), errc::unsupported_architecture, {"expert_gating_func"});
  check_error(shape_with("expert_weights_scale", 2.5f), errc::unsupported_architecture, {"expert_weights_scale", "2.5"});
}

TEST_CASE("an architecture that is not in the table is named with those that are") {
  gguf_writer writer = test::small_model();
  writer.set("general.architecture", std::string("otherwise"));
  check_error(read_shape_of(writer), errc::unsupported_architecture, {"made.gguf", "\"otherwise\"", "qwen3moe"});
  writer.erase("general.architecture");
  check_error(read_shape_of(writer), errc::missing_key, {"\"general.architecture\""});
}

TEST_CASE("a model without an embedding is refused") {
  gguf_writer writer = test::small_model();
  writer.erase_tensor("token_embd.weight");
  check_error(read_shape_of(writer), errc::missing_key, {"\"token_embd.weight\""});
}

TEST_CASE("names of a layer's tensors are made and taken apart") {
  CHECK(layer_tensor_name(12, "attn_q.weight") == "blk.12.attn_q.weight");
  const auto place = split_layer_tensor_name("blk.12.attn_q.weight");
  REQUIRE(place.has_value());
  CHECK(place->layer == 12);
  CHECK(place->name == "attn_q.weight");
  for (const char* other : {"", "blk.", "blk.12", "blk.x.attn_q.weight", "blk.-1.attn_q.weight", "blk.99999999999.a", "output.weight"}) {
    CHECK_FALSE(split_layer_tensor_name(other).has_value());
  }
}

}  // namespace ebb::model

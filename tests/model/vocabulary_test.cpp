#include "model/vocabulary.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/small_model.hpp"
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ebb::model {
namespace {

using test::check_error;
using test::gguf_writer;
using ids = std::vector<token_id>;
using vocabulary = std::shared_ptr<const tokenizer>;

result<vocabulary> read(const gguf_writer& writer) {
  const test::byte_vector bytes = writer.bytes();
  const auto file = gguf::parse(bytes, "made.gguf");
  if (!file) return fail(file.error());
  return read_vocabulary(*file);
}

template <class T>
result<vocabulary> read_with(const std::string& key, const T& value) {
  gguf_writer writer = test::small_model();
  writer.set("tokenizer.ggml." + key, value);
  return read(writer);
}

result<vocabulary> read_without(const std::string& key) {
  gguf_writer writer = test::small_model();
  writer.erase("tokenizer.ggml." + key);
  return read(writer);
}

}  // namespace

TEST_CASE("a vocabulary encodes with the tokens and merges of its file, and outlives it") {
  const auto made = read(test::small_model());
  REQUIRE(made.has_value());
  const tokenizer& tokens = **made;
  CHECK(tokens.n_vocab() == test::tiny::n_vocab);
  CHECK(tokens.encode("hello w") == ids{test::tiny::hello, test::tiny::space_w});
  CHECK(tokens.encode("<think>") == ids{test::tiny::think});
  CHECK(tokens.bos() == test::tiny::begin);
  CHECK(tokens.eos() == test::tiny::end);
}

TEST_CASE("tokens that end an answer are those of eos, eot and eom") {
  const auto made = read_with("eom_token_id", static_cast<std::uint32_t>(test::tiny::padding));
  REQUIRE(made.has_value());
  CHECK((*made)->ends_text(test::tiny::end));
  CHECK((*made)->ends_text(test::tiny::end_turn));
  CHECK((*made)->ends_text(test::tiny::padding));
  CHECK_FALSE((*made)->ends_text(test::tiny::hello));
}

TEST_CASE("a vocabulary adds BOS as its file says") {
  CHECK_FALSE((*read_with("add_bos_token", false))->adds_bos());
  CHECK((*read_with("add_bos_token", true))->adds_bos());
}

TEST_CASE("keys of special tokens may be absent") {
  gguf_writer writer = test::small_model();
  for (const char* key : {"bos_token_id", "eos_token_id", "eot_token_id", "add_bos_token", "token_type"}) {
    writer.erase(std::string("tokenizer.ggml.") + key);
  }
  const auto made = read(writer);
  REQUIRE(made.has_value());
  CHECK_FALSE((*made)->bos().has_value());
  CHECK_FALSE((*made)->eos().has_value());
}

TEST_CASE("the demo model's vocabulary takes a text apart and puts it together again") {
  const auto file = gguf::open(EBB_DEMO_MODEL);
  REQUIRE(file.has_value());
  const auto made = read_vocabulary(*file);
  REQUIRE(made.has_value());
  CHECK((*made)->n_vocab() == 4096);
  const std::string text = "Call me Ishmael. Some years ago";
  const ids encoded = (*made)->encode(text);
  CHECK(encoded.size() < text.size());
  CHECK((*made)->decode(encoded) == text);
}

TEST_CASE("a kind of tokenizer that is not known is named") {
  check_error(read_with("model", std::string("llama")), errc::unsupported_tokenizer,
              {"made.gguf", "tokenizer.ggml.model", "\"llama\"", "gpt2"});
  check_error(read_with("pre", std::string("unheard-of")), errc::unsupported_tokenizer, {"made.gguf", "unheard-of"});
}

TEST_CASE("a key of the vocabulary that is needed and absent is named") {
  const auto key = GENERATE(as<std::string>(), "model", "tokens", "merges");
  check_error(read_without(key), errc::missing_key, {"made.gguf", "\"tokenizer.ggml." + key + "\""});
}

TEST_CASE("a key of the vocabulary of another type is named") {
  check_error(read_with("tokens", 5u), errc::bad_value, {"\"tokenizer.ggml.tokens\"", "array of strings"});
  check_error(read_with("eos_token_id", -1), errc::bad_value, {"\"tokenizer.ggml.eos_token_id\"", "-1"});
}

TEST_CASE("a special token outside the vocabulary is corrupt") {
  const auto key = GENERATE(as<std::string>(), "bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id");
  check_error(read_with(key, 266u), errc::corrupt, {"made.gguf", "\"tokenizer.ggml." + key + "\"", "is 266", "266 tokens"});
}

TEST_CASE("more tokens than the embedding has rows are corrupt") {
  gguf_writer writer = test::small_model();
  writer.tensor("token_embd.weight").dims[1] = 200;
  check_error(read(writer), errc::corrupt, {"made.gguf", "266 tokens", "200 rows"});
}

TEST_CASE("another number of types than of tokens is corrupt") {
  gguf_writer writer = test::small_model();
  writer.set_array("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1});
  check_error(read(writer), errc::corrupt, {"made.gguf"});
}

}  // namespace ebb::model

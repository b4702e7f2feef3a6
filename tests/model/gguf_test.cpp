#include "model/gguf.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/gguf_writer.hpp"
#include "tests/model/support/temporary_folder.hpp"
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace ebb::model {
namespace {

using kernels::format;
using test::check_error;
using test::gguf_writer;

// A parsed file with the bytes it views.
struct parsed {
  test::byte_vector bytes;
  gguf file;
};

parsed parse(const gguf_writer& writer) {
  test::byte_vector bytes = writer.bytes();
  auto file = gguf::parse(bytes, "made.gguf");
  if (!file) FAIL(file.error().text);
  return {std::move(bytes), *std::move(file)};
}

template <class T>
T read(const gguf& file, std::string_view key) {
  const auto value = file.require<T>(key);
  if (!value) FAIL(value.error().text);
  return *value;
}

template <class T>
gguf_writer with(const T& value) {
  gguf_writer out;
  out.set("key", value);
  return out;
}

template <class T>
std::string text_of_value(const T& value) {
  const parsed in = parse(with(value));
  return to_text(*in.file.find("key"));
}

}  // namespace

TEST_CASE("values of every type are read from both versions") {
  gguf_writer writer;
  writer.version = GENERATE(2u, 3u);
  writer.set("uint8", std::uint8_t{200});
  writer.set("int8", std::int8_t{-100});
  writer.set("uint16", std::uint16_t{60000});
  writer.set("int16", std::int16_t{-30000});
  writer.set("uint32", std::uint32_t{4000000000});
  writer.set("int32", std::int32_t{2000000000});
  writer.set("uint64", std::uint64_t{1} << 40);
  writer.set("int64", std::int64_t{1000});
  writer.set("float32", 0.25f);
  writer.set("float64", 1e300);
  writer.set("yes", true);
  writer.set("no", false);
  writer.set("string", std::string("some text"));
  writer.set("empty", std::string());
  const parsed in = parse(writer);
  const gguf& file = in.file;
  CHECK(file.version() == writer.version);
  CHECK(file.entries().size() == 14);
  CHECK(read<std::uint32_t>(file, "uint8") == 200);
  CHECK(read<double>(file, "int8") == -100);
  CHECK(read<std::uint32_t>(file, "uint16") == 60000);
  CHECK(read<double>(file, "int16") == -30000);
  CHECK(read<std::uint32_t>(file, "uint32") == 4000000000);
  CHECK(read<std::uint32_t>(file, "int32") == 2000000000);
  CHECK(read<double>(file, "uint64") == std::uint64_t{1} << 40);
  CHECK(read<std::uint32_t>(file, "int64") == 1000);
  CHECK(read<float>(file, "float32") == 0.25f);
  CHECK(read<double>(file, "float64") == 1e300);
  CHECK(read<bool>(file, "yes"));
  CHECK_FALSE(read<bool>(file, "no"));
  CHECK(read<std::string_view>(file, "string") == "some text");
  CHECK(read<std::string_view>(file, "empty").empty());
}

TEST_CASE("arrays are read element by element") {
  gguf_writer writer;
  writer.set_array("strings", std::vector<std::string>{"one", "", "three"});
  writer.set_array("int32", std::vector<std::int32_t>{-1, 0, 7});
  writer.set_array("uint8", std::vector<std::uint8_t>{1, 255});
  writer.set_array("floats", std::vector<float>{0.5f, -2});
  writer.set_array("none", std::vector<std::string>{});
  const parsed in = parse(writer);
  CHECK(read<std::vector<std::string_view>>(in.file, "strings") == std::vector<std::string_view>{"one", "", "three"});
  CHECK(read<std::vector<std::int32_t>>(in.file, "int32") == std::vector<std::int32_t>{-1, 0, 7});
  CHECK(read<std::vector<std::int32_t>>(in.file, "uint8") == std::vector<std::int32_t>{1, 255});
  CHECK(read<std::vector<float>>(in.file, "floats") == std::vector<float>{0.5f, -2});
  CHECK(read<std::vector<std::string_view>>(in.file, "none").empty());
}

TEST_CASE("strings are views into the file, also after a move") {
  gguf_writer writer;
  writer.set_array("strings", std::vector<std::string>{"one", "two"});
  parsed in = parse(writer);
  const gguf moved = std::move(in.file);
  const auto strings = read<std::vector<std::string_view>>(moved, "strings");
  for (const std::string_view text : strings) {
    const auto* place = reinterpret_cast<const std::byte*>(text.data());
    CHECK((place >= in.bytes.data() && place < in.bytes.data() + in.bytes.size()));
  }
  CHECK(strings[1] == "two");
}

TEST_CASE("a key that is absent is missing where it is required, and nothing or the fallback elsewhere") {
  const parsed in = parse(with(std::uint32_t{5}));
  check_error(in.file.require<std::uint32_t>("absent"), errc::missing_key, {"made.gguf", "\"absent\""});
  CHECK(in.file.optional<std::uint32_t>("absent").value() == std::nullopt);
  CHECK(in.file.optional<std::uint32_t>("key").value() == 5u);
  CHECK(in.file.value_or<std::uint32_t>("absent", 7) == 7u);
  CHECK(in.file.value_or<std::uint32_t>("key", 7) == 5u);
  CHECK(in.file.find("absent") == nullptr);
}

TEST_CASE("a value of another type or out of range is refused with its key and what it is") {
  const parsed negative = parse(with(std::int32_t{-3}));
  check_error(negative.file.require<std::uint32_t>("key"), errc::bad_value, {"made.gguf", "\"key\"", "-3", "0 to 4294967295"});
  check_error(negative.file.value_or<std::uint32_t>("key", 7), errc::bad_value, {"-3"});
  check_error(negative.file.require<float>("key"), errc::bad_value, {"-3", "floating-point"});
  check_error(negative.file.require<bool>("key"), errc::bad_value, {"true or false"});
  check_error(negative.file.require<std::string_view>("key"), errc::bad_value, {"a string"});
  check_error(negative.file.require<std::vector<float>>("key"), errc::bad_value, {"an array"});

  const parsed large = parse(with(std::uint64_t{1} << 32));
  check_error(large.file.require<std::uint32_t>("key"), errc::bad_value, {"4294967296"});

  gguf_writer arrays;
  arrays.set_array("key", std::vector<std::uint32_t>{0, 0x80000000u});
  const parsed in = parse(arrays);
  check_error(in.file.require<std::vector<std::int32_t>>("key"), errc::bad_value, {"array of 2 uint32", "32 bits"});
  check_error(in.file.require<std::uint32_t>("key"), errc::bad_value, {"array of 2 uint32"});
  check_error(in.file.require<std::vector<std::string_view>>("key"), errc::bad_value, {"array of strings"});
}

TEST_CASE("a value has a text that can stand on a terminal") {
  CHECK(text_of_value(std::int8_t{-5}) == "-5");
  CHECK(text_of_value(true) == "true");
  CHECK(text_of_value(0.5f) == "0.5");
  CHECK(text_of_value(1e-6f) == "1e-06");
  CHECK(text_of_value(std::string("plain")) == "\"plain\"");
  CHECK(text_of_value(std::string("a\x1b\"")) == "\"a\\x1b\\x22\"");
  CHECK(text_of_value(std::string(100, 'x')) == "\"" + std::string(80, 'x') + "\"...");
  gguf_writer arrays;
  arrays.set_array("key", std::vector<std::string>(3, "token"));
  CHECK(to_text(*parse(arrays).file.find("key")) == "array of 3 string");
}

TEST_CASE("tensors have the name, format, shape and bytes of the file") {
  gguf_writer writer;
  writer.add_tensor("first", {64, 3, 2}, format::q8_0);
  writer.add_tensor("second", {5}, format::f32);
  const parsed in = parse(writer);
  REQUIRE(in.file.tensors().size() == 2);
  const gguf_tensor* const first = in.file.find_tensor("first");
  const gguf_tensor* const second = in.file.find_tensor("second");
  REQUIRE((first != nullptr && second != nullptr));
  CHECK(first->format == format::q8_0);
  CHECK(first->n_dims == 3);
  CHECK(first->dims == std::array<std::uint64_t, 4>{64, 3, 2, 1});
  CHECK(first->size_bytes == 64 / 32 * 34 * 3 * 2);
  CHECK(shape_text(*first) == "[64, 3, 2]");
  for (const gguf_tensor* tensor : {first, second}) {
    const std::vector<std::byte> bytes(tensor->data, tensor->data + tensor->size_bytes);
    CHECK(bytes == writer.tensor(tensor->name).data);
  }
  CHECK(in.file.find_tensor("third") == nullptr);
  check_error(in.file.require_tensor("third"), errc::missing_key, {"made.gguf", "\"third\""});
}

TEST_CASE("tensors are found at the alignment that the file names") {
  gguf_writer writer;
  writer.alignment = GENERATE(8, 64, 4096);
  writer.set("general.alignment", static_cast<std::uint32_t>(writer.alignment));
  writer.add_tensor("first", {3}, format::f32);
  writer.add_tensor("second", {3}, format::f16);
  const parsed in = parse(writer);
  const gguf_tensor& second = *in.file.find_tensor("second");
  CHECK(std::vector<std::byte>(second.data, second.data + second.size_bytes) == writer.tensors[1].data);
  CHECK((second.data - in.bytes.data()) % writer.alignment == 0);
}

TEST_CASE("a file is opened from its path") {
  const test::temporary_folder folder;
  gguf_writer writer = with(std::uint32_t{5});
  writer.add_tensor("weights", {4}, format::f32);
  const auto path = writer.write(folder / "model.gguf");
  const auto file = gguf::open(path);
  REQUIRE(file.has_value());
  CHECK(file->name() == path.string());
  REQUIRE(file->shards().size() == 1);
  CHECK(file->shards()[0].path == path);
  CHECK(file->shards()[0].size_bytes == std::filesystem::file_size(path));
  CHECK(read<std::uint32_t>(*file, "key") == 5);
  check_error(gguf::open(folder / "absent.gguf"), errc::file_unreadable, {(folder / "absent.gguf").string()});
}

TEST_CASE("the demo model has a vocabulary of 4096 tokens and weights for 6 layers") {
  const auto file = gguf::open(EBB_DEMO_MODEL);
  REQUIRE(file.has_value());
  CHECK(read<std::string_view>(*file, "general.architecture") == "qwen3moe");
  CHECK(read<std::vector<std::string_view>>(*file, "tokenizer.ggml.tokens").size() == 4096);
  const gguf_tensor* const experts = file->find_tensor("blk.5.ffn_down_exps.weight");
  REQUIRE(experts != nullptr);
  CHECK(experts->dims == std::array<std::uint64_t, 4>{256, 256, 32, 1});
}

}  // namespace ebb::model

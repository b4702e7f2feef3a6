// Files that are cut, corrupt or of another kind: always a named error, never a crash.
#include "model/checkpoint.hpp"
#include "model/gguf.hpp"
#include "model/mapped_file.hpp"
#include "model/vocabulary.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/small_model.hpp"
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace ebb::model {
namespace {

using kernels::format;
using test::check_error;
using test::gguf_writer;

result<gguf> parse(std::span<const std::byte> bytes) { return gguf::parse(bytes, "made.gguf"); }

// The errors of opening what a writer made; what is opened is let go with its bytes.
result<void> open_made(const gguf_writer& writer) {
  const test::byte_vector bytes = writer.bytes();
  const auto file = parse(bytes);
  if (!file) return fail(file.error());
  return {};
}

gguf_writer with_raw(gguf_type type, const test::byte_vector& value) {
  gguf_writer out;
  out.set_raw("key", static_cast<std::uint32_t>(type), value);
  return out;
}

test::byte_vector array_header(std::uint32_t element, std::uint64_t count) {
  test::byte_vector out;
  test::append_value(out, element);
  test::append_value(out, count);
  return out;
}

gguf_writer with_tensor(std::vector<std::uint64_t> dims = {32}, format type = format::f32) {
  gguf_writer out;
  out.add_tensor("weights", std::move(dims), type);
  return out;
}

// Everything that a program does with a model's file before it computes. What it returns is only for errors.
result<void> use(std::span<const std::byte> bytes) {
  auto file = parse(bytes);
  if (!file) return fail(file.error());
  for (const gguf_entry& entry : file->entries()) static_cast<void>(to_text(entry.value));
  const auto vocabulary = read_vocabulary(*file);
  const auto model = checkpoint::make(*std::move(file));
  if (!model) return fail(model.error());
  (*model)->warm({});
  if (!vocabulary) return fail(vocabulary.error());
  return {};
}

void check_error_names_file(const result<void>& outcome) {
  if (outcome) return;
  INFO(outcome.error().text);
  CHECK(outcome.error().text.find("made.gguf") == 0);
  CHECK(outcome.error().text.size() < 1000);
  CHECK(outcome.error().code != errc::internal);
}

}  // namespace

TEST_CASE("a small file cut at any byte is truncated") {
  gguf_writer writer;
  writer.version = GENERATE(2u, 3u);
  test::set_small_keys(writer);
  writer.set_array("strings", std::vector<std::string>{"one", "", "three"});
  writer.set_array("numbers", std::vector<float>{1, 2, 3});
  writer.set("yes", true);
  test::add_small_layer(writer, 0);
  const test::byte_vector bytes = writer.bytes();
  REQUIRE(parse(bytes).has_value());
  for (std::size_t size_bytes = 0; size_bytes < bytes.size(); ++size_bytes) {
    const auto file = parse(std::span(bytes).first(size_bytes));
    INFO("cut at " << size_bytes);
    REQUIRE_FALSE(file.has_value());
    REQUIRE(file.error().code == errc::truncated);
    REQUIRE(file.error().text.find("made.gguf") == 0);
  }
}

TEST_CASE("the demo model cut anywhere in its header is truncated") {
  const auto mapping = mapped_file::open(EBB_DEMO_MODEL);
  REQUIRE(mapping.has_value());
  const auto whole = parse(mapping->bytes());
  REQUIRE(whole.has_value());
  const auto header_bytes = static_cast<std::size_t>(whole->tensors().front().data - mapping->bytes().data());
  REQUIRE(header_bytes > 50000);
  constexpr std::size_t stride = 29;  // prime, so that cuts fall on every place in a field of 4 or 8 bytes
  for (std::size_t size_bytes = 0; size_bytes <= header_bytes; size_bytes += stride) {
    const auto file = parse(mapping->bytes().first(size_bytes));
    INFO("cut at " << size_bytes);
    REQUIRE_FALSE(file.has_value());
    REQUIRE(file.error().code == errc::truncated);
  }
}

TEST_CASE("seeded changes of a file give a model or an error, never a crash") {
  const test::byte_vector bytes = test::small_model().bytes();
  REQUIRE(use(bytes).has_value());
  std::mt19937_64 random(20240229);
  for (int round = 0; round < 4000; ++round) {
    test::byte_vector damaged = bytes;
    for (std::uint64_t n = 1 + random() % 4; n > 0; --n) {
      // Half of them in the first 1000 bytes, where the counts and most keys are.
      const std::size_t place = random() % 2 == 0 ? random() % 1000 : random() % damaged.size();
      damaged[place] = static_cast<std::byte>(random() % 3 == 0 ? 0xff : random());
    }
    INFO("round " << round);
    check_error_names_file(use(damaged));
  }
}

TEST_CASE("seeded numbers in place of those of a file give a model or an error, never a crash") {
  const test::byte_vector bytes = test::small_model().bytes();
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t numbers[] = {0, 1, 31, 0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, 1ull << 63, largest - 7, largest};
  std::mt19937_64 random(31);
  REQUIRE(use(bytes).has_value());
  for (int round = 0; round < 4000; ++round) {
    const std::size_t place = random() % (random() % 2 == 0 ? 1000 : bytes.size() - 8);
    test::byte_vector damaged = bytes;
    std::memcpy(damaged.data() + place, &numbers[random() % std::size(numbers)], random() % 2 == 0 ? 4 : 8);
    INFO("at byte " << place);
    check_error_names_file(use(damaged));
  }
}

TEST_CASE("what is no GGUF file is told apart from one that is cut short") {
  const std::string text = "PK, an archive";
  check_error(parse(std::as_bytes(std::span(text))), errc::not_gguf, {"made.gguf", "\"GGUF\""});
  check_error(parse(std::as_bytes(std::span(text).first(2))), errc::not_gguf, {"made.gguf"});
  check_error(parse({}), errc::truncated, {"made.gguf", "magic number"});
}

TEST_CASE("versions other than 2 and 3, and big-endian files, are refused by name") {
  gguf_writer writer;
  writer.version = 1;
  check_error(open_made(writer), errc::unsupported_version, {"made.gguf", "version 1", "2 and 3"});
  writer.version = 4;
  check_error(open_made(writer), errc::unsupported_version, {"version 4"});
  writer.version = 0x03000000;
  check_error(open_made(writer), errc::unsupported_version, {"big-endian"});
}

TEST_CASE("a count of more things than the file has bytes for is truncated") {
  gguf_writer writer;
  writer.n_tensors = 1000;
  check_error(open_made(writer), errc::truncated, {"number of tensors", "1000 times"});
  writer.n_tensors.reset();
  writer.n_entries = 1000;
  check_error(open_made(writer), errc::truncated, {"number of keys", "1000 times"});
}

TEST_CASE("a count that no model has is corrupt") {
  gguf_writer writer;
  writer.n_tensors = std::uint64_t{1} << 40;
  check_error(open_made(writer), errc::corrupt, {"number of tensors", "1099511627776"});
  writer.n_tensors.reset();
  writer.n_entries = std::numeric_limits<std::uint64_t>::max();
  check_error(open_made(writer), errc::corrupt, {"number of keys", "18446744073709551615"});
}

TEST_CASE("a string that is longer than the rest of the file is truncated") {
  test::byte_vector value;
  test::append_value(value, GENERATE(std::uint64_t{1000}, std::numeric_limits<std::uint64_t>::max()));
  check_error(open_made(with_raw(gguf_type::string, value)), errc::truncated, {"made.gguf", "\"key\"", "at byte 47"});
}

TEST_CASE("an array that is longer than the rest of the file is truncated") {
  const std::uint64_t count = GENERATE(std::uint64_t{1000}, std::uint64_t{1} << 61, std::numeric_limits<std::uint64_t>::max());
  const auto element = GENERATE(gguf_type::uint8, gguf_type::float64, gguf_type::string);
  const auto value = array_header(static_cast<std::uint32_t>(element), count);
  check_error(open_made(with_raw(gguf_type::array, value)), errc::truncated, {"\"key\"", std::to_string(count) + " times"});
}

TEST_CASE("a type of value that does not exist, arrays of arrays and half truths are corrupt") {
  check_error(open_made(with_raw(gguf_type{13}, {})), errc::corrupt, {"\"key\"", "type 13"});
  check_error(open_made(with_raw(gguf_type::array, array_header(77, 0))), errc::corrupt, {"\"key\"", "type 77"});
  check_error(open_made(with_raw(gguf_type::array, array_header(9, 0))), errc::corrupt, {"\"key\"", "array of arrays"});
  check_error(open_made(with_raw(gguf_type::boolean, {std::byte{2}})), errc::corrupt, {"\"key\"", "neither true nor false"});
}

TEST_CASE("a key or a tensor that is there twice is corrupt") {
  gguf_writer keys;
  keys.set("key", 1);
  keys.entries.push_back(keys.entries.front());
  check_error(open_made(keys), errc::corrupt, {"\"key\"", "twice"});
  gguf_writer tensors = with_tensor();
  tensors.add_tensor("weights", {1}, format::f32);
  check_error(open_made(tensors), errc::corrupt, {"\"weights\"", "twice"});
}

TEST_CASE("an alignment that is no power of two is corrupt") {
  gguf_writer writer = with_tensor();
  writer.set("general.alignment", GENERATE(std::uint32_t{0}, std::uint32_t{24}));
  check_error(open_made(writer), errc::corrupt, {"\"general.alignment\"", "power of two"});
  writer.set("general.alignment", std::string("32"));
  check_error(open_made(writer), errc::corrupt, {"\"general.alignment\"", "\"32\""});
}

TEST_CASE("a shape that no tensor can have is corrupt") {
  gguf_writer writer = with_tensor();
  auto& dims = writer.tensor("weights").dims;
  dims = {};
  check_error(open_made(writer), errc::corrupt, {"\"weights\"", "0 dimensions"});
  dims = {1, 1, 1, 1, 1};
  check_error(open_made(writer), errc::corrupt, {"\"weights\"", "5 dimensions"});
  dims = {32, 0};
  check_error(open_made(writer), errc::corrupt, {"\"weights\"", "dimension of 0"});
  dims = {std::uint64_t{1} << 32, std::uint64_t{1} << 32};
  check_error(open_made(writer), errc::corrupt, {"\"weights\"", "[4294967296, 4294967296]"});
  dims = {std::uint64_t{1} << 62};
  check_error(open_made(writer), errc::corrupt, {"\"weights\"", "larger than any file"});
  dims = {33};
  writer.tensor("weights").format = static_cast<std::uint32_t>(format::q4_0);
  check_error(open_made(writer), errc::corrupt, {"\"weights\"", "33", "Q4_0"});
}

TEST_CASE("a tensor of a type that is not known is refused with its number") {
  gguf_writer writer = with_tensor();
  writer.tensor("weights").format = 4;  // Q4_2, which GGUF never had
  check_error(open_made(writer), errc::unsupported_format, {"made.gguf", "\"weights\"", "type 4"});
}

TEST_CASE("tensors out of line, past the end or on top of each other are found") {
  gguf_writer writer = with_tensor();
  writer.tensor("weights").offset = 16;
  check_error(open_made(writer), errc::corrupt, {"\"weights\"", "aligned to 32"});
  writer.tensor("weights").offset = std::uint64_t{0} - 32;
  check_error(open_made(writer), errc::truncated, {"\"weights\"", "past the last byte"});
  writer.tensor("weights").offset.reset();
  writer.tensor("weights").dims = {33};
  check_error(open_made(writer), errc::truncated, {"\"weights\"", "132 bytes at byte 0"});

  gguf_writer overlapping = with_tensor({32});
  overlapping.add_tensor("others", {32}, format::f32).offset = 96;
  check_error(open_made(overlapping), errc::corrupt, {"\"weights\"", "\"others\"", "share bytes"});
}

}  // namespace ebb::model

#include "model/gguf.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/gguf_writer.hpp"
#include "tests/model/support/temporary_folder.hpp"
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace ebb::model {
namespace {

using kernels::format;
using test::check_error;
using test::gguf_writer;

// A model in three shards, as converters write them: the keys and no tensor in the first, a tensor in each of the others.
class sharded_model {
 public:
  static constexpr std::uint16_t count = 3;

  sharded_model() {
    for (std::uint16_t index = 0; index < count; ++index) {
      gguf_writer& shard = shards_.emplace_back();
      shard.set("split.no", index);
      shard.set("split.count", count);
      shard.set("split.tensors.count", std::int32_t{2});
      if (index > 0) shard.add_tensor("weights" + std::to_string(index), {8}, format::f32);
    }
    shards_[0].set("general.name", std::string("Sharded"));
  }

  gguf_writer& operator[](std::size_t index) { return shards_[index]; }

  static std::string name(std::size_t index) { return "model-0000" + std::to_string(index + 1) + "-of-00003.gguf"; }
  std::filesystem::path path(std::size_t index) const { return folder_ / name(index); }

  result<gguf> open(std::size_t which = 0) const {
    for (std::size_t index = 0; index < count; ++index) shards_[index].write(path(index));
    return gguf::open(path(which));
  }

 private:
  test::temporary_folder folder_;
  std::vector<gguf_writer> shards_;
};

}  // namespace

TEST_CASE("opening the first shard opens all of them") {
  sharded_model model;
  const auto file = model.open();
  REQUIRE(file.has_value());
  CHECK(file->name() == model.path(0).string());
  REQUIRE(file->shards().size() == 3);
  CHECK(file->shards()[2].path == model.path(2));
  CHECK(file->require<std::string_view>("general.name") == "Sharded");
  REQUIRE(file->tensors().size() == 2);
  const gguf_tensor* const last = file->find_tensor("weights2");
  REQUIRE(last != nullptr);
  CHECK(last->shard == 2);
  CHECK(std::vector<std::byte>(last->data, last->data + last->size_bytes) == model[2].tensors[0].data);
}

TEST_CASE("opening another shard names the first") {
  sharded_model model;
  check_error(model.open(1), errc::bad_value, {model.path(1).string(), "shard 2 of 3", model.path(0).string()});
}

TEST_CASE("a shard under another name says which name its kind has") {
  const test::temporary_folder folder;
  sharded_model model;
  model[0].write(folder / "model.gguf");
  check_error(gguf::open(folder / "model.gguf"), errc::bad_value, {(folder / "model.gguf").string(), "-00001-of-00003.gguf"});
  model[1].write(folder / "second.gguf");
  check_error(gguf::open(folder / "second.gguf"), errc::bad_value, {"shard 2 of 3", "-00001-of-00003.gguf"});
}

TEST_CASE("a shard that is absent or damaged is named") {
  sharded_model model;
  REQUIRE(model.open().has_value());
  std::filesystem::resize_file(model.path(1), 40);
  check_error(gguf::open(model.path(0)), errc::truncated, {model.path(1).string(), "shard 2 of 3"});
  std::filesystem::remove(model.path(1));
  check_error(gguf::open(model.path(0)), errc::file_unreadable, {model.path(1).string(), "shard 2 of 3", "one folder"});
}

TEST_CASE("a file in the place of a shard that is not that shard is corrupt") {
  sharded_model model;
  model[2].set("split.no", std::uint16_t{1});
  check_error(model.open(), errc::corrupt, {model.path(2).string(), "shard 3 of 3"});
  model[2].erase("split.no");
  check_error(model.open(), errc::corrupt, {model.path(2).string(), "split.no"});
  model[2].set("split.no", std::uint16_t{2});
  model[2].set("split.count", std::uint16_t{4});
  check_error(model.open(), errc::corrupt, {model.path(2).string(), "split.count"});
}

TEST_CASE("shards that hold more or fewer tensors than the first says are corrupt") {
  sharded_model model;
  model[0].set("split.tensors.count", std::int32_t{3});
  check_error(model.open(), errc::corrupt, {model.path(0).string(), "hold 2 tensors", "says 3"});
}

TEST_CASE("a tensor in two shards is corrupt") {
  sharded_model model;
  model[2].tensors[0].name = "weights1";
  check_error(model.open(), errc::corrupt, {"\"weights1\"", "twice"});
}

TEST_CASE("a count of shards that no model has is corrupt") {
  sharded_model model;
  model[0].set("split.count", std::uint32_t{1} << 31);
  check_error(model.open(), errc::corrupt, {"split.count", "2147483648"});
}

TEST_CASE("a model in one shard is a file like any other") {
  const test::temporary_folder folder;
  gguf_writer writer;
  writer.set("split.no", std::uint16_t{0});
  writer.set("split.count", GENERATE(std::uint16_t{0}, std::uint16_t{1}));
  CHECK(gguf::open(writer.write(folder / "model.gguf")).has_value());
}

TEST_CASE("shards in memory are refused, since the others are found by path") {
  sharded_model model;
  check_error(gguf::parse(model[0].bytes(), "memory"), errc::bad_value, {"memory", "3 shards"});
}

}  // namespace ebb::model

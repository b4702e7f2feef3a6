#include "model/expert_store.hpp"
#include "tests/kernels/support/pinning_gpu.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/demo_model.hpp"
#include "tests/model/support/small_model.hpp"
#include "tests/model/support/temporary_folder.hpp"
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

namespace ebb::model {
namespace {

using kernels::test::pinning_gpu;
using test::demo_model;

constexpr matrix matrices[] = {matrix::gate, matrix::up, matrix::down};

kernels::store_options by_threads(unsigned n_threads) {
  return {.name = "card 1", .n_threads = n_threads, .progress = {}, .stop = {}, .give_up_cache = true};
}

bool same_bytes(const extent& a, const extent& b) { return a.size_bytes == b.size_bytes && std::memcmp(a.data, b.data, a.size_bytes) == 0; }

bool same_experts(const expert_store& store, const checkpoint& weights, std::uint32_t layer) {
  for (std::uint32_t index = 0; index < weights.experts().n_experts(); ++index) {
    for (const matrix which : matrices) {
      if (!same_bytes(store.experts().at({layer, index}, which), weights.experts().at({layer, index}, which))) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("the store of the mapped file is the file's own catalog and holds nothing") {
  const auto store = expert_store::mapped(demo_model());
  CHECK(store->experts().at({2, 3}, matrix::up).data == demo_model()->experts().at({2, 3}, matrix::up).data);
  CHECK_FALSE(store->pinned());
  CHECK(store->warning().empty());
  CHECK(store->held_bytes() == 0);
}

TEST_CASE("a pinned store has the experts of its layers in a copy, and those of others in the file") {
  const auto gpu = std::make_shared<pinning_gpu>();
  const auto made = expert_store::pinned(demo_model(), 1, 4, gpu, by_threads(3));
  REQUIRE(made);
  const expert_store& store = **made;
  CHECK(store.pinned());
  REQUIRE(gpu->pinned.size() == 1);
  const auto* const begin = static_cast<const std::byte*>(gpu->pinned.begin()->first);
  const std::byte* const end = begin + store.held_bytes();
  const catalog& file = demo_model()->experts();
  for (std::uint32_t layer = 0; layer < file.n_layers(); ++layer) {
    CHECK(store.experts().formats(layer) == file.formats(layer));
    for (std::uint32_t index = 0; index < file.n_experts(); ++index) {
      for (const matrix which : matrices) {
        const extent ours = store.experts().at({layer, index}, which), original = file.at({layer, index}, which);
        REQUIRE(same_bytes(ours, original));
        const bool in_copy = ours.data >= begin && ours.data + ours.size_bytes <= end;
        REQUIRE(in_copy == (layer >= 1 && layer < 4));
        if (!in_copy) REQUIRE(ours.data == original.data);
      }
      CHECK(store.experts().in_one_piece({layer, index}).has_value() == (layer >= 1 && layer < 4));
    }
  }
}

TEST_CASE("a store is read from the file that was opened, though another has its name by now") {
  const test::temporary_folder folder;
  const auto path = folder / "small.gguf";
  const auto write = [&](const test::byte_vector& bytes) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  write(test::small_model().bytes());
  const auto weights = checkpoint::open(path);
  REQUIRE(weights);
  std::filesystem::remove(path);
  write(test::byte_vector(100));
  const auto store = expert_store::pinned(*weights, 0, 2, std::make_shared<pinning_gpu>(), by_threads(1));
  REQUIRE(store);
  CHECK(same_experts(**store, **weights, 1));
}

TEST_CASE("a model that is only in memory is copied from there") {
  const test::byte_vector bytes = test::small_model().bytes();
  auto file = gguf::parse(bytes, "made.gguf");
  REQUIRE(file);
  const auto weights = checkpoint::make(*std::move(file));
  REQUIRE(weights);
  const auto store = expert_store::pinned(*weights, 0, 1, std::make_shared<pinning_gpu>(), by_threads(1));
  REQUIRE(store);
  CHECK(same_experts(**store, **weights, 0));
}

TEST_CASE("a store whose pinning is refused says so and holds the same experts; one that is stopped is none") {
  const auto gpu = std::make_shared<pinning_gpu>();
  gpu->refusal = error{errc::out_of_memory, "no more may be locked"};
  const auto store = expert_store::pinned(demo_model(), 0, 1, gpu, by_threads(2));
  REQUIRE(store);
  CHECK_FALSE((*store)->pinned());
  CHECK_THAT((*store)->warning(), Catch::Contains("card 1") && Catch::Contains("no more may be locked"));
  CHECK(same_experts(**store, *demo_model(), 0));

  std::stop_source stop;
  stop.request_stop();
  kernels::store_options options = by_threads(2);
  options.stop = stop.get_token();
  test::check_error(expert_store::pinned(demo_model(), 0, 1, gpu, options), errc::cancelled, {"card 1"});
}

}  // namespace ebb::model

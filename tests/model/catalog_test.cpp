#include "model/catalog.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/small_model.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ebb::model {
namespace {

using kernels::format;
using test::check_error;
using test::gguf_writer;
namespace small = test::small;

constexpr matrix matrices[] = {matrix::gate, matrix::up, matrix::down};

result<catalog> make(const gguf& file) {
  const auto family = find_architecture(file);
  if (!family) return fail(family.error());
  const auto dims = read_shape(file, **family);
  if (!dims) return fail(dims.error());
  return catalog::make(file, **family, *dims);
}

// The errors of a catalog; its extents end with the bytes.
result<void> make_from(const gguf_writer& writer) {
  const test::byte_vector bytes = writer.bytes();
  const auto file = gguf::parse(bytes, "made.gguf");
  if (!file) return fail(file.error());
  return make(*file).map([](const catalog&) {});
}

}  // namespace

TEST_CASE("an expert's matrices are its slices of the layer's tensors") {
  const gguf_writer writer = test::small_model();
  const test::byte_vector bytes = writer.bytes();
  const auto file = gguf::parse(bytes, "made.gguf");
  REQUIRE(file.has_value());
  const auto experts = make(*file);
  REQUIRE(experts.has_value());
  CHECK(experts->n_layers() == small::n_layers);
  CHECK(experts->n_experts() == small::n_experts);
  for (std::uint32_t layer = 0; layer < small::n_layers; ++layer) {
    for (const auto& [which, name] :
         {std::pair{matrix::gate, "ffn_gate_exps.weight"}, {matrix::up, "ffn_up_exps.weight"}, {matrix::down, "ffn_down_exps.weight"}}) {
      const gguf_tensor& tensor = *file->find_tensor(layer_tensor_name(layer, name));
      CHECK(experts->formats(layer)[static_cast<std::size_t>(which)] == tensor.format);
      for (std::uint32_t index = 0; index < small::n_experts; ++index) {
        const extent place = experts->at({layer, index}, which);
        CHECK(place.size_bytes == kernels::bytes_of(tensor.format, std::size_t{small::d_model} * small::d_ff));
        CHECK(place.data == tensor.data + index * place.size_bytes);
      }
    }
  }
}

TEST_CASE("the bytes of an expert are those of its three matrices, and a slot must hold the largest") {
  const test::byte_vector bytes = test::small_model().bytes();
  const auto file = gguf::parse(bytes, "made.gguf");
  REQUIRE(file.has_value());
  const auto experts = make(*file);
  REQUIRE(experts.has_value());
  const std::uint64_t blocks = std::uint64_t{small::d_model} * small::d_ff / 32;
  CHECK(experts->expert_bytes(0) == blocks * (18 + 20 + 22));
  CHECK(experts->expert_bytes(1) == blocks * (18 + 20 + 34));
  CHECK(experts->expert_bytes_max(0, 1) == experts->expert_bytes(0));
  CHECK(experts->expert_bytes_max(0, 2) == experts->expert_bytes(1));
}

TEST_CASE("a catalog that is moved finds the experts of some layers at other addresses, and nothing else has changed") {
  const test::byte_vector bytes = test::small_model().bytes();
  const auto file = gguf::parse(bytes, "made.gguf");
  REQUIRE(file.has_value());
  const auto experts = make(*file);
  REQUIRE(experts.has_value());
  const std::byte elsewhere[3]{};
  const layer_place there{{&elsewhere[0], &elsewhere[1], &elsewhere[2]}, {100, 200, 300}};
  const catalog moved = experts->moved(1, std::span(&there, 1));
  for (const matrix which : matrices) {
    const auto place = static_cast<std::size_t>(which);
    CHECK(moved.at({0, 2}, which).data == experts->at({0, 2}, which).data);
    CHECK(moved.at({1, 2}, which).data == there.base[place] + 2 * there.stride_bytes[place]);
    CHECK(moved.at({1, 2}, which).size_bytes == experts->at({1, 2}, which).size_bytes);
    CHECK(moved.tensor(0, which).data == experts->tensor(0, which).data);
  }
  CHECK(moved.formats(1) == experts->formats(1));
  CHECK(moved.expert_bytes_max(0, 2) == experts->expert_bytes_max(0, 2));
}

TEST_CASE("an expert is in one piece where its matrices lie one behind the other, and only there") {
  const test::byte_vector bytes = test::small_model().bytes();
  const auto file = gguf::parse(bytes, "made.gguf");
  REQUIRE(file.has_value());
  const auto experts = make(*file);
  REQUIRE(experts.has_value());
  CHECK_FALSE(experts->in_one_piece({0, 1}));
  const std::uint64_t gate = experts->at({0, 0}, matrix::gate).size_bytes, up = experts->at({0, 0}, matrix::up).size_bytes;
  const std::vector<std::byte> copy(experts->expert_bytes(0) * small::n_experts);
  layer_place there{{copy.data(), copy.data() + gate, copy.data() + gate + up}, {}};
  there.stride_bytes.fill(experts->expert_bytes(0));
  const auto whole = experts->moved(0, std::span(&there, 1)).in_one_piece({0, 1});
  REQUIRE(whole);
  CHECK(whole->data == copy.data() + experts->expert_bytes(0));
  CHECK(whole->size_bytes == experts->expert_bytes(0));
  ++there.base[2];
  CHECK_FALSE(experts->moved(0, std::span(&there, 1)).in_one_piece({0, 1}));
}

TEST_CASE("no two experts of the demo model share a byte") {
  const auto file = gguf::open(EBB_DEMO_MODEL);
  REQUIRE(file.has_value());
  const auto experts = make(*file);
  REQUIRE(experts.has_value());
  std::vector<std::pair<const std::byte*, const std::byte*>> places;
  for (std::uint32_t layer = 0; layer < experts->n_layers(); ++layer) {
    for (std::uint32_t index = 0; index < experts->n_experts(); ++index) {
      for (const matrix which : matrices) {
        const extent place = experts->at({layer, index}, which);
        places.emplace_back(place.data, place.data + place.size_bytes);
      }
    }
  }
  REQUIRE(places.size() == 6 * 32 * matrices_per_expert);
  std::ranges::sort(places);
  const auto overlap = [](const auto& before, const auto& after) { return before.second > after.first; };
  CHECK(std::ranges::adjacent_find(places, overlap) == places.end());
}

TEST_CASE("a layer without experts is named") {
  gguf_writer writer = test::small_model();
  const std::string name = "blk.1." + GENERATE(as<std::string>(), "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight");
  writer.erase_tensor(name);
  check_error(make_from(writer), errc::missing_key, {"made.gguf", "\"" + name + "\""});
}

TEST_CASE("more layers than the file has are missing tensors, not memory") {
  gguf_writer writer = test::small_model();
  writer.set("qwen3moe.block_count", 0xffffffffu);
  check_error(make_from(writer), errc::missing_key, {"\"blk.2.ffn_gate_exps.weight\""});
}

TEST_CASE("experts of another shape than the keys say are corrupt") {
  gguf_writer writer = test::small_model();
  writer.tensor("blk.0.ffn_down_exps.weight").dims = {small::d_ff, small::d_model, small::n_experts - 1};
  check_error(make_from(writer), errc::corrupt, {"made.gguf", "\"blk.0.ffn_down_exps.weight\"", "[64, 32, 3]", "[64, 32, 4]"});
}

TEST_CASE("experts in a format without kernels are refused with those that have them") {
  gguf_writer writer = test::small_model();
  // A format of 32 values in 18 bytes, as the Q4_0 that the file was made with.
  writer.tensor("blk.1.ffn_gate_exps.weight").format = static_cast<std::uint32_t>(format::iq4_nl);
  check_error(make_from(writer), errc::unsupported_format,
              {"made.gguf", "\"blk.1.ffn_gate_exps.weight\"", "IQ4_NL", "F32", "Q4_K", "Q6_K"});
}

}  // namespace ebb::model

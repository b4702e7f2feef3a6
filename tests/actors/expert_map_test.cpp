#include "actors/expert_map.hpp"
#include <catch2/catch.hpp>

namespace ebb::actors {
namespace {

constexpr expert_range stage{3, 5, 6};  // 12 experts

TEST_CASE("a map has a bit for each expert, layer by layer, least significant first, and spare bits of the last byte are 0") {
  expert_cache cache(stage, 12);
  const expert_heat heat(stage, 16);
  CHECK(map_of({2}, cache, heat).resident == "0000");
  cache.set_slots_usable(3);
  cache.place({3, 0}, slot_id{2});
  cache.place({4, 0}, slot_id{0});  // number 6
  cache.place({4, 5}, slot_id{1});  // number 11
  const bus::expert_map map = map_of({2}, cache, heat);
  CHECK(map.device == 2);
  CHECK(map.layer_begin == 3);
  CHECK(map.layer_end == 5);
  CHECK(map.experts == 6);
  CHECK(map.resident == "4108");
}

TEST_CASE("a map has a byte of heat for each expert: 255 the hottest, 0 only what was not used") {
  const expert_cache cache(stage, 12);
  expert_heat heat(stage, 16);
  CHECK(map_of({0}, cache, heat).heat == std::string(24, '0'));
  CHECK(map_of({0}, cache, heat).heat_max == 0);
  heat.note({3, 1}, 8.0);
  heat.note({3, 2}, 4.0);
  heat.note({4, 5}, 0.001);
  const bus::expert_map map = map_of({0}, cache, heat);
  CHECK(map.heat == "00ff80" "000000" "000000" "000001");
  CHECK(map.heat_max == Approx(8));
}

}  // namespace
}  // namespace ebb::actors

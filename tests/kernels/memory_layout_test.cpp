#include "kernels/memory/layout.hpp"
#include <catch2/catch.hpp>

namespace ebb::kernels {
namespace {

TEST_CASE("segments cover a cache exactly, and the last one may be smaller") {
  const segment_layout layout{512, 16380};
  REQUIRE(layout.count() == 32);
  CHECK(layout.size_of(0) == 512);
  CHECK(layout.size_of(31) == 508);
  CHECK(layout.end_of(31) == 16380);
  CHECK(layout.holding(511) == 0);
  CHECK(layout.holding(512) == 1);
  CHECK(layout.holding(16379) == 31);
}

TEST_CASE("a border is a multiple of the segment or the end of the cache") {
  const segment_layout layout{512, 16380};
  CHECK(layout.round_down(511) == 0);
  CHECK(layout.round_down(512) == 512);
  CHECK(layout.round_down(16379) == 15872);
  CHECK(layout.round_down(16380) == 16380);
  CHECK(layout.round_down(99999) == 16380);
  CHECK(layout.round_up(0) == 0);
  CHECK(layout.round_up(1) == 512);
  CHECK(layout.round_up(15873) == 16380);
  CHECK(layout.segments_below(0) == 0);
  CHECK(layout.segments_below(15872) == 31);
  CHECK(layout.segments_below(16380) == 32);
}

TEST_CASE("a cache that is a whole number of segments has no smaller last one") {
  const segment_layout layout{512, 1024};
  CHECK(layout.count() == 2);
  CHECK(layout.size_of(1) == 512);
  CHECK(layout.segments_below(1024) == 2);
}

TEST_CASE("slots begin at multiples of 64 bytes") {
  CHECK(slot_layout(1).slot_bytes() == 64);
  CHECK(slot_layout(64).slot_bytes() == 64);
  CHECK(slot_layout(65).slot_bytes() == 128);
  CHECK(slot_layout(100).offset_of(slot_id{3}) == 384);
}

TEST_CASE("a slot that is only partly mapped is not usable") {
  const slot_layout slots(100);
  CHECK(slots.slots_in(0) == 0);
  CHECK(slots.slots_in(127) == 0);
  CHECK(slots.slots_in(128) == 1);
  CHECK(slots.slots_in(slots.bytes_of(1000)) == 1000);
}

TEST_CASE("slots beyond 4 GiB keep their offsets") {
  CHECK(slot_layout(3u << 20).offset_of(slot_id{5000}) == 5000ull * (3u << 20));
}

}  // namespace
}  // namespace ebb::kernels

#include "actors/segment_floor.hpp"
#include <catch2/catch.hpp>
#include <random>

namespace ebb::actors {
namespace {

using kernels::segment_layout;

constexpr std::uint64_t mib = 1024 * 1024;
const segment_layout half_gib_segments{512 * mib, 16380 * mib};  // 31 x 512 and a last one of 508

// A full cache of that layout with 8292 MiB free beside it, and what is free once the plan for `wanted_mib` was carried out.
std::pair<std::uint64_t, std::uint64_t> keep_and_free_mib(std::uint64_t wanted_mib) {
  const resize_inputs inputs{.mapped_bytes = 16380 * mib, .free_bytes = 8292 * mib, .wanted_free_bytes = wanted_mib * mib};
  const auto plan = plan_resize(half_gib_segments, inputs);
  CHECK(plan.short_bytes == 0);
  return {plan.keep_bytes / mib, 8292 + 16380 - plan.keep_bytes / mib};
}

TEST_CASE("the keep is rounded down to a border, so that what is free is enough") {
  CHECK(keep_and_free_mib(12000) == std::pair<std::uint64_t, std::uint64_t>(12288, 12384));
}

TEST_CASE("the smaller last segment goes first, and is all that goes if it is enough") {
  CHECK(keep_and_free_mib(8500) == std::pair<std::uint64_t, std::uint64_t>(15872, 8800));
  CHECK(keep_and_free_mib(8800) == std::pair<std::uint64_t, std::uint64_t>(15872, 8800));
  CHECK(keep_and_free_mib(8801) == std::pair<std::uint64_t, std::uint64_t>(15360, 9312));
}

TEST_CASE("a need of one MiB frees a segment, and no need frees none") {
  CHECK(keep_and_free_mib(8293).first == 15872);
  CHECK(keep_and_free_mib(8292).first == 16380);
  CHECK(keep_and_free_mib(0).first == 16380);
}

TEST_CASE("growth maps only whole segments that fit above the reserve") {
  const auto keep_mib = [](std::uint64_t free_mib) {
    const resize_inputs inputs{.mapped_bytes = 12288 * mib, .free_bytes = free_mib * mib, .wanted_free_bytes = 700 * mib};
    return plan_resize(half_gib_segments, inputs).keep_bytes / mib;
  };
  CHECK(keep_mib(700 + 511) == 12288);
  CHECK(keep_mib(700 + 512) == 12800);
  CHECK(keep_mib(700 + 1100) == 13312);
  CHECK(keep_mib(700 + 16380 - 12288 - 1) == 15872);
  CHECK(keep_mib(700 + 16380 - 12288) == 16380);
}

TEST_CASE("at the floor the plan says how much will be missing") {
  const resize_inputs inputs{.mapped_bytes = 2048 * mib, .free_bytes = 1000 * mib, .wanted_free_bytes = 3000 * mib, .floor_bytes = 600 * mib};
  const auto plan = plan_resize(half_gib_segments, inputs);
  CHECK(plan.keep_bytes == 1024 * mib);  // the border above 600
  CHECK(plan.short_bytes == (3000 - 1000 - 1024) * mib);
}

TEST_CASE("more than the card has is short by the difference, without wrapping around") {
  const resize_inputs inputs{.mapped_bytes = 512 * mib, .free_bytes = 100 * mib, .wanted_free_bytes = ~std::uint64_t{0}};
  const auto plan = plan_resize(half_gib_segments, inputs);
  CHECK(plan.keep_bytes == 0);
  CHECK(plan.short_bytes == ~std::uint64_t{0} - 612 * mib);
}

TEST_CASE("a floor that does not fit is kept, and all of the wanted is missing") {
  const resize_inputs inputs{.free_bytes = 100 * mib, .wanted_free_bytes = 50 * mib, .floor_bytes = 512 * mib};
  CHECK(plan_resize(half_gib_segments, inputs) == resize_plan{512 * mib, 50 * mib});
}

TEST_CASE("a ceiling bounds growth, and the floor wins over it") {
  resize_inputs inputs{.mapped_bytes = 2048 * mib, .free_bytes = 9000 * mib, .ceiling_bytes = 3000 * mib};
  CHECK(plan_resize(half_gib_segments, inputs).keep_bytes == 2560 * mib);
  inputs.ceiling_bytes = 1000 * mib;
  CHECK(plan_resize(half_gib_segments, inputs).keep_bytes == 512 * mib);
  inputs.floor_bytes = 1024 * mib;
  CHECK(plan_resize(half_gib_segments, inputs).keep_bytes == 1024 * mib);
}

// What the plan means: unmap the last segment while it must go, else map the next one while it fits.
resize_plan by_single_segments(const segment_layout& layout, resize_inputs now) {
  auto count = layout.segments_below(now.mapped_bytes);
  const auto unmap_last = [&] {
    count -= 1;
    now.mapped_bytes -= layout.size_of(count);
    now.free_bytes += layout.size_of(count);
  };
  while (count > 0 && now.mapped_bytes - layout.size_of(count - 1) >= now.floor_bytes &&
         (now.free_bytes < now.wanted_free_bytes || now.mapped_bytes > now.ceiling_bytes))
    unmap_last();
  while (count < layout.count() && now.mapped_bytes + layout.size_of(count) <= now.ceiling_bytes &&
         now.free_bytes >= now.wanted_free_bytes + layout.size_of(count)) {
    now.mapped_bytes += layout.size_of(count);
    now.free_bytes -= layout.size_of(count);
    count += 1;
  }
  const std::uint64_t missing = now.free_bytes < now.wanted_free_bytes ? now.wanted_free_bytes - now.free_bytes : 0;
  const std::uint64_t above = now.mapped_bytes > now.ceiling_bytes ? now.mapped_bytes - now.ceiling_bytes : 0;
  return {now.mapped_bytes, std::max(missing, above)};
}

struct random_case {
  segment_layout layout;
  resize_inputs inputs;
};

// Small numbers, so that borders and ties are hit often. The cache is not below its floor, as on a card that runs.
random_case draw(std::mt19937& random) {
  const segment_layout layout{1 + random() % 8, 1 + random() % 60};
  const auto border = [&] { return layout.end_of(random() % layout.count()); };
  resize_inputs inputs{.mapped_bytes = border(), .free_bytes = random() % 80, .wanted_free_bytes = random() % 120};
  if (random() % 2) inputs.floor_bytes = random() % (inputs.mapped_bytes + 1);
  if (random() % 4 == 0) inputs.ceiling_bytes = random() % 70;
  return {layout, inputs};
}

#define CAPTURE_CASE(layout, inputs)                                                                                       \
  CAPTURE(layout.segment_bytes, layout.full_bytes, inputs.mapped_bytes, inputs.free_bytes, inputs.wanted_free_bytes, inputs.floor_bytes, \
          inputs.ceiling_bytes)

TEST_CASE("the plan is what unmapping or mapping one segment after the other would give") {
  std::mt19937 random(1);
  for (int n = 0; n < 50000; ++n) {
    const auto [layout, inputs] = draw(random);
    CAPTURE_CASE(layout, inputs);
    REQUIRE(plan_resize(layout, inputs) == by_single_segments(layout, inputs));
  }
}

TEST_CASE("the same command twice changes nothing") {
  std::mt19937 random(2);
  for (int n = 0; n < 50000; ++n) {
    auto [layout, inputs] = draw(random);
    CAPTURE_CASE(layout, inputs);
    const auto plan = plan_resize(layout, inputs);
    inputs.free_bytes = inputs.free_bytes + inputs.mapped_bytes - plan.keep_bytes;
    inputs.mapped_bytes = plan.keep_bytes;
    REQUIRE(plan_resize(layout, inputs) == plan);
  }
}

}  // namespace
}  // namespace ebb::actors

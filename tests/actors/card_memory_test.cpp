#include "actors/card_memory.hpp"
#include "support/stage_memory.hpp"

namespace ebb::actors {
namespace {

using test::operation;

// The first segments mapped and their slots usable, all empty.
void open_slots(card_memory& memory, kernels::segment_index segments) {
  for (kernels::segment_index segment = 0; segment < segments; ++segment) REQUIRE(memory.map(segment));
  memory.set_slots_usable(memory.slots().slots_in(memory.arena().mapped_bytes()));
}

result<void> move_one(card_memory& memory, const cache_move& step) { return memory.move(std::span(&step, 1)); }
result<void> swap_one(card_memory& memory, const cache_swap& step) { return memory.swap(std::span(&step, 1)); }

TEST_CASE("at first nothing is mapped and every expert is read from the store") {
  const card_memory memory = test::memory_on_host();
  CHECK(memory.arena().mapped_bytes() == 0);
  CHECK(memory.cache().slots_usable() == 0);
  CHECK_FALSE(memory.resident());
  CHECK(memory.consistent());
  CHECK(test::reads_the_model(memory));
}

TEST_CASE("an expert that is filled, moved and evicted is the same bytes wherever it is read from, and each step is a version") {
  card_memory memory = test::memory_on_host();
  open_slots(memory, 2);
  REQUIRE(memory.cache().slots_usable() == 5);
  const expert_id expert{3, 17};
  const std::uint64_t before = memory.version();

  REQUIRE(memory.fill({expert, slot_id{2}}));  // lies across the border of two segments
  CHECK(memory.table().at(expert).in_slot);
  CHECK(memory.table().at(expert).matrix[0] == memory.arena().base() + memory.slots().offset_of(slot_id{2}));
  CHECK(test::reads_the_model(memory));
  CHECK(memory.consistent());
  const std::uint64_t filled = memory.version();
  CHECK(filled > before);

  REQUIRE(move_one(memory, {expert, slot_id{2}, slot_id{0}}));
  CHECK(memory.table().at(expert).matrix[0] == memory.arena().base());
  CHECK(test::reads_the_model(memory));
  CHECK(memory.consistent());
  const std::uint64_t moved = memory.version();
  CHECK(moved > filled);

  memory.evict(expert);
  CHECK_FALSE(memory.table().at(expert).in_slot);
  CHECK(test::reads_the_model(memory));
  CHECK(memory.consistent());
  CHECK(memory.version() > moved);
}

TEST_CASE("a swap puts one expert where another was") {
  card_memory memory = test::memory_on_host();
  open_slots(memory, 1);
  REQUIRE(memory.fill({{2, 0}, slot_id{1}}));
  REQUIRE(swap_one(memory, {{3, 31}, {2, 0}, slot_id{1}}));
  CHECK(test::residents_of(memory) == std::set<expert_id>{{3, 31}});
  CHECK(memory.consistent());
  CHECK(test::reads_the_model(memory));
}

TEST_CASE("a copy that fails leaves the expert where it was read from") {
  test::fragile_memory fragile;
  card_memory& memory = fragile.memory;
  open_slots(memory, 2);
  REQUIRE(memory.fill({{2, 5}, slot_id{3}}));
  const std::uint64_t version = memory.version();
  const std::uint64_t table = memory.table().checksum();

  for (const std::size_t matrix : {0u, 1u, 2u}) {  // of the three, one copied already or two
    fragile.arena->fail_at(operation::copy_in, matrix);
    const auto filled = memory.fill({{2, 6}, slot_id{0}});
    REQUIRE_FALSE(filled);
    CHECK(filled.error().code == errc::card_lost);
  }
  fragile.arena->fail_at(operation::copy_within, 0);
  CHECK_FALSE(move_one(memory, {{2, 5}, slot_id{3}, slot_id{0}}));
  CHECK(memory.version() == version);
  CHECK(memory.table().checksum() == table);
  CHECK(memory.consistent());
  CHECK(test::reads_the_model(memory));
}

TEST_CASE("a swap whose copy fails leaves the slot empty and both experts in the store") {
  test::fragile_memory fragile;
  card_memory& memory = fragile.memory;
  open_slots(memory, 1);
  REQUIRE(memory.fill({{2, 5}, slot_id{0}}));
  fragile.arena->fail_at(operation::copy_in, 1);  // its slot is half overwritten by then
  CHECK_FALSE(swap_one(memory, {{2, 6}, {2, 5}, slot_id{0}}));
  CHECK(test::residents_of(memory).empty());
  CHECK_FALSE(memory.cache().occupant(slot_id{0}));
  CHECK(memory.consistent());
  CHECK(test::reads_the_model(memory));
}

TEST_CASE("several fills are copied together and awaited once") {
  test::fragile_memory fragile;
  card_memory& memory = fragile.memory;
  open_slots(memory, 2);
  const std::array<cache_fill, 3> fills{{{{2, 5}, slot_id{0}}, {{2, 6}, slot_id{3}}, {{3, 1}, slot_id{1}}}};
  REQUIRE(memory.fill(fills));
  CHECK(fragile.arena->count(operation::finish_copies) == 1);
  CHECK(test::residents_of(memory) == std::set<expert_id>{{2, 5}, {2, 6}, {3, 1}});
  CHECK(memory.consistent());
  CHECK(test::reads_the_model(memory));
}

TEST_CASE("of several fills those before the one that cannot be copied are kept, and its slot and those after it stay empty") {
  const auto failing = GENERATE(range(0u, 3u));
  const auto matrix = GENERATE(range(0u, 3u));
  CAPTURE(failing, matrix);
  test::fragile_memory fragile;
  card_memory& memory = fragile.memory;
  open_slots(memory, 2);
  const std::array<cache_fill, 3> fills{{{{2, 5}, slot_id{0}}, {{2, 6}, slot_id{3}}, {{3, 1}, slot_id{1}}}};
  fragile.arena->fail_at(operation::copy_in, failing * 3 + matrix);
  const auto filled = memory.fill(fills);
  REQUIRE_FALSE(filled);
  CHECK_THAT(filled.error().text, Catch::Contains("refused to copy in"));
  CHECK(memory.cache().resident_count() == failing);
  for (std::size_t i = 0; i < fills.size(); ++i) CHECK(memory.cache().slot_of(fills[i].expert).has_value() == (i < failing));
  CHECK(memory.consistent());
  CHECK(test::reads_the_model(memory));
  fragile.arena->fail_no_more();
  CHECK(memory.fill(std::span(fills).subspan(failing)));
  CHECK(test::reads_the_model(memory));
}

TEST_CASE("copies that cannot be awaited leave every slot of their batch empty, and every expert to be moved where it is") {
  test::fragile_memory fragile;
  card_memory& memory = fragile.memory;
  open_slots(memory, 2);
  REQUIRE(memory.fill({{2, 9}, slot_id{4}}));
  const std::uint64_t version = memory.version();
  const std::array<cache_fill, 2> fills{{{{2, 5}, slot_id{0}}, {{2, 6}, slot_id{3}}}};
  fragile.arena->fail_at(operation::finish_copies, 0);
  const auto filled = memory.fill(fills);
  REQUIRE_FALSE(filled);
  CHECK_THAT(filled.error().text, Catch::Contains("refused to finish its copies"));
  const std::array<cache_move, 1> moves{{{{2, 9}, slot_id{4}, slot_id{1}}}};
  fragile.arena->fail_at(operation::finish_copies, 0);
  CHECK_FALSE(memory.move(moves));
  CHECK(test::residents_of(memory) == std::set<expert_id>{{2, 9}});
  CHECK(memory.version() == version);
  CHECK(memory.consistent());
  CHECK(test::reads_the_model(memory));
}

TEST_CASE("of several moves only those that cannot be copied stay where they were") {
  test::fragile_memory fragile;
  card_memory& memory = fragile.memory;
  open_slots(memory, 3);
  const std::array<cache_fill, 3> fills{{{{2, 5}, slot_id{4}}, {{2, 6}, slot_id{5}}, {{3, 1}, slot_id{6}}}};
  REQUIRE(memory.fill(fills));
  const std::array<cache_move, 3> moves{{{{2, 5}, slot_id{4}, slot_id{0}}, {{2, 6}, slot_id{5}, slot_id{1}}, {{3, 1}, slot_id{6}, slot_id{2}}}};
  fragile.arena->fail_at(operation::copy_within, 1);
  CHECK_FALSE(memory.move(moves));
  CHECK(memory.cache().slot_of({2, 5}) == slot_id{0});
  CHECK(memory.cache().slot_of({2, 6}) == slot_id{5});
  CHECK(memory.cache().slot_of({3, 1}) == slot_id{2});
  CHECK(memory.consistent());
  CHECK(test::reads_the_model(memory));
}

TEST_CASE("slots that are said to be usable and are not mapped are found out") {
  card_memory memory = test::memory_on_host();
  memory.set_slots_usable(1);
  CHECK_FALSE(memory.consistent());
  REQUIRE(memory.map(0));
  CHECK(memory.consistent());
  memory.set_slots_usable(3);
  CHECK_FALSE(memory.consistent());  // the third reaches into the next segment
}

TEST_CASE("a segment that was unmapped comes back with what was in it") {
  card_memory memory = test::memory_on_host();
  open_slots(memory, 2);
  REQUIRE(memory.fill({{2, 9}, slot_id{4}}));
  memory.evict({2, 9});
  memory.set_slots_usable(2);
  REQUIRE(memory.unmap(1));
  CHECK(memory.arena().held_bytes() == test::border(2));
  CHECK(memory.consistent());
  REQUIRE(memory.remap(1));
  memory.set_slots_usable(5);
  CHECK(memory.consistent());
  const model::extent gate = test::demo().weights->experts().at({2, 9}, model::matrix::gate);
  CHECK(std::memcmp(memory.arena().base() + memory.slots().offset_of(slot_id{4}), gate.data, gate.size_bytes) == 0);
  memory.set_slots_usable(2);
  REQUIRE(memory.unmap(1));
  memory.release(1);
  CHECK(memory.arena().held_bytes() == test::border(1));
}

}  // namespace
}  // namespace ebb::actors

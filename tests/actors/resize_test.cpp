#include "actors/resize.hpp"
#include "support/stage_memory.hpp"

namespace ebb::actors {
namespace {

using namespace std::chrono_literals;
using test::operation;

constexpr time_point start{1h};

// A step of one unit of work.
bool one_unit(resize& what) {
  return what.step([] { return start; }, start);
}

void finish(resize& what) {
  while (!one_unit(what)) {
  }
}

constexpr std::uint64_t one_at_a_time = 0;  // the copies of a unit of work

result<void> resize_to(card_memory& memory, kernels::segment_index segments, std::uint64_t batch_bytes = one_at_a_time) {
  resize what(memory, test::border(segments), batch_bytes);
  finish(what);
  return what.outcome();
}

kernels::segment_index all_segments() { return test::stage_layout().count(); }

// A cache of so many segments that holds the hottest, as in use.
void warm_up(card_memory& memory, kernels::segment_index segments, unsigned seed = 1) {
  std::mt19937 random(seed);
  for (int window = 0; window < 50; ++window) test::use_some(memory, random);
  REQUIRE(resize_to(memory, segments));
}

// The hottest of the given ones.
std::set<expert_id> hottest_of(const card_memory& memory, const std::set<expert_id>& some, std::size_t count) {
  std::vector<expert_id> order(some.begin(), some.end());
  std::sort(order.begin(), order.end(), [&](expert_id a, expert_id b) { return memory.heat().is_hotter(a, b); });
  return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()))};
}

// What must be the same after a transaction that was rolled back.
struct snapshot {
  std::uint64_t mapped_bytes, held_bytes;
  std::uint32_t slots_usable;
  std::set<expert_id> residents;
  friend bool operator==(const snapshot&, const snapshot&) = default;
};
snapshot state_of(const card_memory& memory) {
  return {memory.arena().mapped_bytes(), memory.arena().held_bytes(), memory.cache().slots_usable(), test::residents_of(memory)};
}

// Mapped from the first byte without a hole, nothing held besides, and as many slots as fit.
void check_sound(const card_memory& memory) {
  CHECK(memory.consistent());
  CHECK(test::reads_the_model(memory));
  CHECK(memory.arena().is_mapped(0, memory.arena().mapped_bytes()));
  CHECK(memory.arena().held_bytes() == memory.arena().mapped_bytes());
  CHECK(memory.cache().slots_usable() == memory.slots().slots_in(memory.arena().mapped_bytes()));
}

void random_resizes(card_memory& memory, unsigned seed, int n_resizes, std::uint64_t batch_bytes = one_at_a_time) {
  std::mt19937 random(seed);
  const kernels::segment_index count = all_segments();
  for (int number = 0; number < n_resizes; ++number) {
    CAPTURE(number);
    test::use_some(memory, random);
    const auto segments = static_cast<kernels::segment_index>(random() % (count + 1));
    const std::uint64_t keep_bytes = test::border(segments);
    const std::uint32_t slots = memory.slots().slots_in(keep_bytes);
    const std::set<expert_id> before = test::residents_of(memory);
    const std::set<expert_id> kept = hottest_of(memory, before, slots);

    resize what(memory, keep_bytes, batch_bytes);
    REQUIRE(what.shrinks() == (segments < memory.arena().mapped_count()));
    while (!one_unit(what)) {
      REQUIRE(memory.consistent());
      test::use_some(memory, random);  // windows run between the steps
    }
    REQUIRE(memory.consistent());
    REQUIRE(what.outcome());
    REQUIRE(memory.arena().mapped_bytes() == keep_bytes);
    REQUIRE(memory.arena().held_bytes() == keep_bytes);
    REQUIRE(memory.cache().slots_usable() == slots);
    const std::set<expert_id> after = test::residents_of(memory);
    if (what.shrinks()) {
      REQUIRE(after == kept);
    } else {
      REQUIRE(after.size() == std::min(slots, test::n_stage_experts()));
      REQUIRE(std::includes(after.begin(), after.end(), before.begin(), before.end()));
    }
    REQUIRE(test::reads_the_model(memory));
  }
}

TEST_CASE("resizes to random borders leave the memory consistent after every step, and a shrink keeps exactly the hottest") {
  const auto seed = GENERATE(range(0u, 4u));
  CAPTURE(seed);
  SECTION("on a host card") {
    card_memory memory = test::memory_on_host();
    random_resizes(memory, seed, 40);
  }
  SECTION("on a device that spoils what is not mapped") {
    test::fragile_memory fragile;
    random_resizes(fragile.memory, seed, 40);
  }
  SECTION("on such a device, which copies while windows run") {
    test::fragile_memory fragile;
    fragile.arena->copy_by_itself();
    random_resizes(fragile.memory, seed, 40);
  }
  SECTION("on such a device, with several copies at a time") {
    test::fragile_memory fragile;
    random_resizes(fragile.memory, seed, 40, 5 * fragile.memory.slots().slot_bytes());
  }
}

TEST_CASE("the slots to fill of a growth rise while it maps, fall one by one while it fills, and a shrink has none") {
  card_memory memory = test::memory_on_host();
  warm_up(memory, 4);
  const std::uint32_t residents = memory.cache().resident_count();
  resize growth(memory, test::border(9), one_at_a_time);
  std::uint32_t most = 0;
  while (!one_unit(growth)) {
    CHECK(growth.slots_to_fill() == memory.slots().slots_in(memory.arena().mapped_bytes()) - memory.cache().resident_count());
    most = std::max(most, growth.slots_to_fill());
  }
  CHECK(most == memory.cache().slots_usable() - residents);
  CHECK(growth.slots_to_fill() == 0);
  resize shrink(memory, test::border(4), one_at_a_time);
  while (!one_unit(shrink)) CHECK(shrink.slots_to_fill() == 0);
  CHECK(shrink.slots_to_fill() == 0);
}

TEST_CASE("a growth fills the hottest of those that were out") {
  card_memory memory = test::memory_on_host();
  warm_up(memory, 4);
  std::set<expert_id> all;
  for (std::uint32_t number = 0; number < test::n_stage_experts(); ++number) all.insert(memory.cache().experts().at(number));
  CHECK(test::residents_of(memory) == hottest_of(memory, all, memory.cache().slots_usable()));
  REQUIRE(resize_to(memory, 9));
  CHECK(test::residents_of(memory) == hottest_of(memory, all, memory.cache().slots_usable()));
}

TEST_CASE("a resize to the same size changes nothing") {
  card_memory memory = test::memory_on_host();
  warm_up(memory, 6);
  const snapshot before = state_of(memory);
  const std::uint64_t version = memory.version();
  REQUIRE(resize_to(memory, 6));
  CHECK(state_of(memory) == before);
  CHECK(memory.version() == version);
}

TEST_CASE("an unmap refused at any segment leaves memory, slots and residents as they were, and says why") {
  const kernels::segment_index before = 12, keep = 5;
  const auto at = GENERATE(range(0u, 7u));
  CAPTURE(at);
  test::fragile_memory fragile;
  warm_up(fragile.memory, before);
  const snapshot held = state_of(fragile.memory);
  fragile.arena->fail_at(operation::unmap, at);
  const std::size_t releases = fragile.arena->releases();

  resize what(fragile.memory, test::border(keep));
  while (!one_unit(what)) REQUIRE(fragile.memory.consistent());
  REQUIRE_FALSE(what.outcome());
  CHECK(what.outcome().error().code == errc::card_lost);
  CHECK_THAT(what.outcome().error().text, Catch::Contains("refused to unmap"));
  CHECK(state_of(fragile.memory) == held);
  CHECK(fragile.arena->releases() == releases);
  check_sound(fragile.memory);

  CHECK(resize_to(fragile.memory, keep));  // once the device allows it
  CHECK(fragile.memory.arena().mapped_count() == keep);
  check_sound(fragile.memory);
}

TEST_CASE("what cannot be mapped again after a refused unmap is given up, and the rest is used without holes") {
  const kernels::segment_index before = 12, keep = 5;
  const auto unmapped = GENERATE(range(1u, 7u));
  const auto remapped = GENERATE_COPY(range(0u, unmapped));
  CAPTURE(unmapped, remapped);
  test::fragile_memory fragile;
  warm_up(fragile.memory, before);
  fragile.arena->fail_at(operation::unmap, unmapped);
  fragile.arena->fail_at(operation::remap, remapped, true);

  const auto outcome = resize_to(fragile.memory, keep);
  REQUIRE_FALSE(outcome);
  CHECK_THAT(outcome.error().text, Catch::Contains("refused to unmap"));
  CHECK(fragile.memory.arena().mapped_count() == before - unmapped + remapped);
  CHECK(fragile.memory.cache().resident_count() == fragile.memory.cache().slots_usable());
  check_sound(fragile.memory);

  fragile.arena->fail_no_more();
  CHECK(resize_to(fragile.memory, all_segments()));
  check_sound(fragile.memory);
}

TEST_CASE("a refill that fails after a refused unmap leaves slots empty and still reports the unmap") {
  test::fragile_memory fragile;
  warm_up(fragile.memory, 12);
  fragile.arena->fail_at(operation::unmap, 3);
  fragile.arena->fail_at(operation::copy_in, 4, true);
  const auto outcome = resize_to(fragile.memory, 5);
  REQUIRE_FALSE(outcome);
  CHECK_THAT(outcome.error().text, Catch::Contains("refused to unmap"));
  CHECK(fragile.memory.cache().resident_count() < fragile.memory.cache().slots_usable());
  check_sound(fragile.memory);
}

TEST_CASE("a map refused at any segment gives back what was mapped and leaves the table as it was") {
  const kernels::segment_index before = 5, keep = 12;
  const auto at = GENERATE(range(0u, 7u));
  CAPTURE(at);
  test::fragile_memory fragile;
  warm_up(fragile.memory, before);
  const snapshot held = state_of(fragile.memory);
  const std::uint64_t table = fragile.memory.table().checksum();
  fragile.arena->fail_at(operation::map, at);

  resize what(fragile.memory, test::border(keep));
  while (!one_unit(what)) REQUIRE(fragile.memory.consistent());
  REQUIRE_FALSE(what.outcome());
  CHECK_THAT(what.outcome().error().text, Catch::Contains("refused to map"));
  CHECK(state_of(fragile.memory) == held);
  CHECK(fragile.memory.table().checksum() == table);
  check_sound(fragile.memory);

  CHECK(resize_to(fragile.memory, keep));
  check_sound(fragile.memory);
}

TEST_CASE("a segment that stays mapped when a refused growth is rolled back is used, with all below it") {
  const kernels::segment_index before = 5, keep = 12;
  const auto mapped = GENERATE(range(1u, 7u));
  const auto unmapped = GENERATE_COPY(range(0u, mapped));
  CAPTURE(mapped, unmapped);
  test::fragile_memory fragile;
  warm_up(fragile.memory, before);
  fragile.arena->fail_at(operation::map, mapped);
  fragile.arena->fail_at(operation::unmap, unmapped, true);

  const auto outcome = resize_to(fragile.memory, keep);
  REQUIRE_FALSE(outcome);
  CHECK_THAT(outcome.error().text, Catch::Contains("refused to map"));
  CHECK(fragile.memory.arena().mapped_count() == before + mapped - unmapped);
  check_sound(fragile.memory);

  fragile.arena->fail_no_more();
  for (const kernels::segment_index next : {before + 1, kernels::segment_index{0}, all_segments()}) {
    CHECK(resize_to(fragile.memory, next));
    CHECK(fragile.memory.arena().mapped_count() == next);
    check_sound(fragile.memory);
  }
}

TEST_CASE("a growth whose copies fail keeps its memory, leaves slots empty and says so; the next one fills them") {
  const auto at = GENERATE(0u, 1u, 2u, 3u, 17u, 29u);  // three copies an expert
  const auto batch_bytes = GENERATE(one_at_a_time, limits::copy_batch_bytes);
  CAPTURE(at, batch_bytes);
  test::fragile_memory fragile;
  warm_up(fragile.memory, 4);
  const std::uint32_t residents = fragile.memory.cache().resident_count();
  fragile.arena->fail_at(operation::copy_in, at);
  const auto outcome = resize_to(fragile.memory, 10, batch_bytes);
  REQUIRE_FALSE(outcome);
  CHECK_THAT(outcome.error().text, Catch::Contains("refused to copy in"));
  CHECK(fragile.memory.arena().mapped_count() == 10);
  CHECK(fragile.memory.cache().resident_count() == residents + at / 3);
  check_sound(fragile.memory);

  CHECK(resize_to(fragile.memory, 10));
  CHECK(fragile.memory.cache().resident_count() == fragile.memory.cache().slots_usable());
  check_sound(fragile.memory);
}

TEST_CASE("a shrink fills the slots that an earlier failure left empty, and one that cannot be filled does not make it fail") {
  const bool fails_again = GENERATE(false, true);
  test::fragile_memory fragile;
  warm_up(fragile.memory, 4);
  fragile.arena->fail_at(operation::copy_in, 0);
  REQUIRE_FALSE(resize_to(fragile.memory, 10));
  REQUIRE(fragile.memory.cache().resident_count() < fragile.memory.slots().slots_in(test::border(8)));
  if (fails_again) fragile.arena->fail_at(operation::copy_in, 0);
  CHECK(resize_to(fragile.memory, 8));
  CHECK(fragile.memory.arena().held_bytes() == test::border(8));
  CHECK((fragile.memory.cache().resident_count() == fragile.memory.cache().slots_usable()) == !fails_again);
  check_sound(fragile.memory);
}

TEST_CASE("an expert that cannot be moved out of a segment that leaves is copied from the store, and the shrink goes on") {
  test::fragile_memory fragile;
  warm_up(fragile.memory, 12);
  // Hot ones lie in the last slots, so there is something to move.
  for (std::uint32_t slot = fragile.memory.cache().slots_usable() - 4; slot < fragile.memory.cache().slots_usable(); ++slot) {
    fragile.memory.note(*fragile.memory.cache().occupant({slot}), 1000);
  }
  const auto kept = hottest_of(fragile.memory, test::residents_of(fragile.memory), fragile.memory.slots().slots_in(test::border(5)));
  const std::size_t moves = fragile.arena->count(operation::copy_within);
  fragile.arena->fail_at(operation::copy_within, 1);
  CHECK(resize_to(fragile.memory, 5));
  CHECK(fragile.arena->count(operation::copy_within) == moves + 4);
  CHECK(fragile.memory.arena().mapped_count() == 5);
  const auto residents = test::residents_of(fragile.memory);
  CHECK(residents == kept);
  check_sound(fragile.memory);
}

TEST_CASE("moves and fills of a resize are awaited once a batch") {
  test::fragile_memory fragile;
  const std::uint64_t batch_bytes = 7 * fragile.memory.slots().slot_bytes();
  const auto batches = [](std::size_t steps) { return (steps + 6) / 7; };
  std::size_t awaited = 0;
  const auto newly_awaited = [&] { return fragile.arena->count(operation::finish_copies) - std::exchange(awaited, fragile.arena->count(operation::finish_copies)); };
  CHECK(resize_to(fragile.memory, 12, batch_bytes));
  CHECK(newly_awaited() == batches(fragile.memory.cache().slots_usable()));
  // The hottest lie in the last slots, so that all of them have to move.
  const std::uint32_t keep = fragile.memory.slots().slots_in(test::border(5));
  for (std::uint32_t slot = fragile.memory.cache().slots_usable() - keep; slot < fragile.memory.cache().slots_usable(); ++slot) {
    fragile.memory.note(*fragile.memory.cache().occupant({slot}), 1000);
  }
  CHECK(resize_to(fragile.memory, 5, batch_bytes));
  CHECK(fragile.arena->count(operation::copy_within) == keep);
  CHECK(newly_awaited() == batches(keep));
  check_sound(fragile.memory);
}

TEST_CASE("experts whose moves cannot be awaited are copied from the store, and the shrink goes on") {
  test::fragile_memory fragile;
  warm_up(fragile.memory, 12);
  for (std::uint32_t slot = fragile.memory.cache().slots_usable() - 4; slot < fragile.memory.cache().slots_usable(); ++slot) {
    fragile.memory.note(*fragile.memory.cache().occupant({slot}), 1000);
  }
  const auto kept = hottest_of(fragile.memory, test::residents_of(fragile.memory), fragile.memory.slots().slots_in(test::border(5)));
  fragile.arena->fail_at(operation::finish_copies, 0);
  CHECK(resize_to(fragile.memory, 5, limits::copy_batch_bytes));
  CHECK(fragile.memory.arena().mapped_count() == 5);
  CHECK(test::residents_of(fragile.memory) == kept);
  check_sound(fragile.memory);
}

TEST_CASE("where the device copies by itself, a step leaves copies on their way, and no window reads their slots before they have ended") {
  test::fragile_memory fragile;
  fragile.arena->copy_by_itself();
  resize what(fragile.memory, test::border(9), one_at_a_time);
  while (fragile.arena->count(operation::copy_in) == 0) REQUIRE_FALSE(one_unit(what));
  CHECK(fragile.arena->count(operation::finish_copies) == 0);
  CHECK(fragile.memory.cache().resident_count() == 0);
  CHECK(fragile.memory.consistent());
  CHECK(test::reads_the_model(fragile.memory));
  finish(what);
  CHECK(fragile.arena->count(operation::finish_copies) == 1);
  CHECK(fragile.memory.cache().resident_count() == fragile.memory.cache().slots_usable());
  check_sound(fragile.memory);
}

TEST_CASE("random failures of every kind never leave tables, slots and memory apart") {
  const auto seed = GENERATE(range(0u, 8u));
  const auto batch = GENERATE(0u, 4u, 100u);
  const bool by_itself = GENERATE(false, true);
  CAPTURE(seed, batch, by_itself);
  std::mt19937 random(seed);
  test::fragile_memory fragile;
  if (by_itself) fragile.arena->copy_by_itself();
  int failures = 0;
  for (int number = 0; number < 60; ++number) {
    CAPTURE(number);
    test::use_some(fragile.memory, random);
    fragile.arena->fail_no_more();
    for (const operation kind : {operation::map, operation::unmap, operation::remap, operation::copy_in, operation::copy_within, operation::finish_copies}) {
      if (random() % 3 == 0) fragile.arena->fail_at(kind, random() % 8, random() % 2);
    }
    resize what(fragile.memory, test::border(static_cast<kernels::segment_index>(random() % (all_segments() + 1))), batch * fragile.memory.slots().slot_bytes());
    while (!one_unit(what)) REQUIRE(fragile.memory.consistent());
    failures += !what.outcome();
    check_sound(fragile.memory);
  }
  CHECK(failures > 5);
}

// A clock that a millisecond passes on with each look.
struct ticking_clock {
  time_point now = start;
  std::size_t looks = 0;
  clock_fn fn() {
    return [this] {
      ++looks;
      return now += 1ms;
    };
  }
};

TEST_CASE("a step ends at the time that was given") {
  test::fragile_memory fragile;
  ticking_clock clock;
  resize what(fragile.memory, test::border(all_segments()), one_at_a_time);
  const auto work_done = [&] { return fragile.arena->count(operation::map) + fragile.arena->count(operation::copy_in) / 3; };
  std::size_t steps = 0;
  for (bool done = false; !done; ++steps) {
    const std::size_t before = work_done();
    const time_point until = clock.now + 5ms;
    done = what.step(clock.fn(), until);
    CHECK(work_done() - before <= 5);
    CHECK(clock.now <= until);
  }
  REQUIRE(what.outcome());
  const std::size_t units = all_segments() + 1 + test::n_stage_experts() + 1;  // maps, making slots usable, fills, seeing that all is done
  CHECK(steps == (units + 4) / 5);
}

TEST_CASE("a step whose time is over before it begins still does one unit of work, and one with time enough does all") {
  test::fragile_memory fragile;
  ticking_clock clock;
  resize slow(fragile.memory, test::border(3));
  CHECK_FALSE(slow.step(clock.fn(), start - 1h));
  CHECK(fragile.arena->count(operation::map) == 1);
  CHECK_FALSE(slow.step(clock.fn(), start - 1h));
  CHECK(fragile.arena->count(operation::map) == 2);
  CHECK(slow.step(clock.fn(), start + 1h));
  CHECK(slow.outcome());
  CHECK(fragile.memory.arena().mapped_count() == 3);
  const std::size_t looks = clock.looks;
  CHECK(slow.step(clock.fn(), start + 1h));  // done stays done
  CHECK(clock.looks == looks);
}

}  // namespace
}  // namespace ebb::actors

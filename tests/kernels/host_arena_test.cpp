#include "kernels/memory/host_arena.hpp"
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ebb::kernels {
namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

std::unique_ptr<host_arena> make_arena(std::uint64_t segment_bytes, std::uint64_t full_bytes, std::uint64_t card_bytes = 0) {
  auto made = host_arena::create({"host:1", {segment_bytes, full_bytes}, card_bytes});
  REQUIRE(made);
  return std::move(*made);
}

void map_all(arena& arena) {
  for (segment_index segment = 0; segment < arena.layout().count(); ++segment) REQUIRE(arena.map(segment));
}

std::vector<std::byte> noise(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

bool holds(const arena& arena, std::uint64_t offset, const std::vector<std::byte>& bytes) {
  return std::memcmp(arena.base() + offset, bytes.data(), bytes.size()) == 0;
}

// Sum of a field of /proc/self/smaps, for which the system walks the pages, over the mappings at these addresses.
std::uint64_t smaps_bytes(const std::string& field, std::uintptr_t begin, std::uint64_t size) {
  std::ifstream in("/proc/self/smaps");
  std::uint64_t sum = 0;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    unsigned long long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &from, &to) == 2) inside = from < begin + size && begin < to;
    if (inside && line.starts_with(field + ":")) sum += std::stoull(line.substr(field.size() + 1)) * kib;
  }
  return sum;
}

std::uintptr_t address(const arena& arena) { return reinterpret_cast<std::uintptr_t>(arena.base()); }

std::uint64_t resident_bytes(const arena& arena) { return smaps_bytes("Rss", address(arena), arena.layout().full_bytes); }

// The signal that ends a child which does `deed`, or 0 if it lives on.
template <class Deed>
int signal_of(Deed deed) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    std::signal(SIGSEGV, SIG_DFL);
    std::fclose(stderr);
    deed();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_CASE("map takes a segment's memory at once, and release gives all of it back") {
  const std::uint64_t segment_bytes = GENERATE(256 * kib, 1 * mib, 2 * mib, 3 * mib, 4 * mib);
  CAPTURE(segment_bytes);
  const auto arena = make_arena(segment_bytes, 8 * segment_bytes);
  CHECK(resident_bytes(*arena) == 0);
  for (segment_index segment = 0; segment < 8; ++segment) {
    REQUIRE(arena->map(segment));
    REQUIRE(resident_bytes(*arena) == (segment + 1) * segment_bytes);
  }
  // Every second one, so that its neighbours stay.
  for (segment_index segment = 1; segment < 8; segment += 2) {
    const std::uint64_t before = resident_bytes(*arena);
    REQUIRE(arena->unmap(segment));
    CHECK(resident_bytes(*arena) == before);
    arena->release(segment);
    CHECK(resident_bytes(*arena) == before - segment_bytes);
  }
}

TEST_CASE("no huge page is used where it could lie across two segments") {
  const std::uint64_t segment_bytes = GENERATE(256 * kib, 1 * mib, 3 * mib);
  const auto arena = make_arena(segment_bytes, 32 * segment_bytes);
  map_all(*arena);
  CHECK(smaps_bytes("AnonHugePages", address(*arena), arena->layout().full_bytes) == 0);
}

TEST_CASE("an arena that ends gives its memory back, whatever the states of its segments") {
  auto arena = make_arena(1 * mib, 64 * mib);
  const std::uintptr_t begin = address(*arena);
  map_all(*arena);
  REQUIRE(arena->unmap(3));
  REQUIRE(smaps_bytes("Rss", begin, 64 * mib) == 64 * mib);
  arena.reset();
  CHECK(smaps_bytes("Rss", begin, 64 * mib) < 1 * mib);  // others may use the addresses again
}

TEST_CASE("contents survive unmap and remap") {
  const auto arena = make_arena(256 * kib, 1 * mib);
  map_all(*arena);
  const auto bytes = noise(1 * mib, 1);
  REQUIRE(arena->copy_in(0, bytes));
  for (const segment_index segment : {2u, 0u}) {
    REQUIRE(arena->unmap(segment));
    CHECK(arena->state(segment) == segment_state::unmapped);
  }
  REQUIRE(arena->remap(0));
  REQUIRE(arena->remap(2));
  CHECK(arena->mapped_bytes() == 1 * mib);
  CHECK(holds(*arena, 0, bytes));
}

TEST_CASE("an unmapped segment cannot be read") {
  const auto arena = make_arena(256 * kib, 1 * mib);
  map_all(*arena);
  const auto read = [&] { static_cast<void>(*static_cast<volatile std::byte*>(arena->base() + 512 * kib)); };
  CHECK(signal_of(read) == 0);
  REQUIRE(arena->unmap(2));
  CHECK(signal_of(read) == SIGSEGV);
}

TEST_CASE("a copy may cross segments, and its neighbours stay") {
  const auto arena = make_arena(256 * kib, 1 * mib);
  map_all(*arena);
  const auto all = noise(1 * mib, 2);
  const auto some = noise(300 * kib, 3);
  REQUIRE(arena->copy_in(0, all));
  REQUIRE(arena->copy_in(200 * kib, some));
  REQUIRE(arena->copy_within(200 * kib, 600 * kib, 300 * kib));
  CHECK(holds(*arena, 0, {all.begin(), all.begin() + 200 * kib}));
  CHECK(holds(*arena, 200 * kib, some));
  CHECK(holds(*arena, 500 * kib, {all.begin() + 500 * kib, all.begin() + 600 * kib}));
  CHECK(holds(*arena, 600 * kib, some));
  CHECK(holds(*arena, 900 * kib, {all.begin() + 900 * kib, all.end()}));
}

TEST_CASE("a copy that touches a segment which is no longer mapped stops the program") {
  const auto arena = make_arena(256 * kib, 1 * mib);
  map_all(*arena);
  const auto bytes = noise(64 * kib, 4);
  REQUIRE(arena->unmap(2));
  const auto to = GENERATE(512 * kib, 512 * kib - 1, 512 * kib - 64 * kib + 1, 768 * kib - 1, 1 * mib - 1);
  CAPTURE(to);
  CHECK(signal_of([&] { static_cast<void>(arena->copy_in(to, bytes)); }) == SIGABRT);
  CHECK(signal_of([&] { static_cast<void>(arena->copy_within(0, to, bytes.size())); }) == SIGABRT);
  CHECK(signal_of([&] { static_cast<void>(arena->copy_within(to, 0, bytes.size())); }) == SIGABRT);
}

TEST_CASE("copies beside an unmapped segment, and to the very end, are allowed") {
  const auto arena = make_arena(256 * kib, 1 * mib);
  map_all(*arena);
  const auto bytes = noise(64 * kib, 5);
  REQUIRE(arena->unmap(2));
  CHECK(arena->copy_in(512 * kib - 64 * kib, bytes));
  CHECK(arena->copy_within(512 * kib - 64 * kib, 768 * kib, bytes.size()));
  CHECK(arena->copy_in(1 * mib - 64 * kib, bytes));
}

TEST_CASE("steps out of turn stop the program") {
  const auto arena = make_arena(256 * kib, 512 * kib);
  REQUIRE(arena->map(0));
  CHECK(signal_of([&] { static_cast<void>(arena->map(0)); }) == SIGABRT);
  CHECK(signal_of([&] { static_cast<void>(arena->remap(0)); }) == SIGABRT);
  CHECK(signal_of([&] { arena->release(0); }) == SIGABRT);
  CHECK(signal_of([&] { static_cast<void>(arena->unmap(1)); }) == SIGABRT);
  CHECK(signal_of([&] { static_cast<void>(arena->map(2)); }) == SIGABRT);
}

TEST_CASE("free is what the card has beside the segments that are held, and unmapped ones are held") {
  const auto arena = make_arena(256 * kib, 1 * mib + 100, 2 * mib);
  CHECK(arena->free_bytes() == 2 * mib);
  map_all(*arena);
  CHECK(arena->free_bytes() == 1 * mib - 100);
  REQUIRE(arena->unmap(4));
  CHECK(arena->mapped_bytes() == 1 * mib);
  CHECK(arena->free_bytes() == 1 * mib - 100);
  arena->release(4);
  CHECK(arena->free_bytes() == 1 * mib);
}

TEST_CASE("a last segment that is no whole page works to its last byte") {
  const auto arena = make_arena(256 * kib, 1 * mib + 100);
  map_all(*arena);
  const auto bytes = noise(200, 6);
  REQUIRE(arena->copy_in(1 * mib - 100, bytes));
  REQUIRE(arena->unmap(4));
  REQUIRE(arena->remap(4));
  CHECK(holds(*arena, 1 * mib - 100, bytes));
}

TEST_CASE("a card without a size of its own has what the system has") {
  const auto arena = make_arena(256 * kib, 1 * mib);
  const auto free = arena->free_bytes();
  REQUIRE(free);
  CHECK(*free > 1 * mib);
}

TEST_CASE("a full card refuses a segment, names itself and the sizes, and changes nothing") {
  const auto arena = make_arena(256 * kib, 1 * mib, 600 * kib);
  REQUIRE(arena->map(0));
  REQUIRE(arena->map(1));
  const auto refused = arena->map(2);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::out_of_memory);
  CHECK(refused.error().text ==
        "card host:1: segment 2 of 0.25 MiB cannot be mapped: 0.09 MiB are free, and 0.50 MiB are held by this card; "
        "lower the cache, or raise host_card_mib if the machine has more memory");
  CHECK(arena->state(2) == segment_state::absent);
  CHECK(arena->mapped_bytes() == 512 * kib);

  REQUIRE(arena->unmap(0));
  arena->release(0);
  CHECK(arena->map(2));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need memory of their own all the time
TEST_CASE("memory that the system refuses is an error, and the segment stays absent") {
  const auto arena = make_arena(64 * mib, 64 * mib);
  rlimit was{};
  REQUIRE(getrlimit(RLIMIT_DATA, &was) == 0);
  const rlimit next_to_nothing{4096, was.rlim_max};
  REQUIRE(setrlimit(RLIMIT_DATA, &next_to_nothing) == 0);
  const auto refused = arena->map(0);
  REQUIRE(setrlimit(RLIMIT_DATA, &was) == 0);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::out_of_memory);
  CHECK(refused.error().text.find("card host:1: segment 0 of 64.00 MiB") == 0);
  CHECK(arena->state(0) == segment_state::absent);
  CHECK(arena->held_bytes() == 0);
  CHECK(arena->map(0));
}
#endif

TEST_CASE("addresses that the system refuses are an error, before any memory is taken") {
  const auto make_large = [] { return host_arena::create({"host:0", {1024 * mib, std::uint64_t{8} << 40}, 0}); };
  std::vector<std::unique_ptr<host_arena>> arenas;
  auto made = make_large();
  for (; made && arenas.size() < 1024; made = make_large()) arenas.push_back(std::move(*made));
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::out_of_memory);
  CHECK(made.error().text.find("card host:0: cannot reserve addresses for a cache of 8388608.00 MiB") == 0);
}

TEST_CASE("sizes that no arena can have are refused by name") {
  const auto of = [](std::uint64_t segment_bytes, std::uint64_t full_bytes) {
    const auto refused = host_arena::create({"host:0", {segment_bytes, full_bytes}, 0});
    REQUIRE_FALSE(refused);
    return refused.error();
  };
  CHECK(of(1000, 4096).code == errc::bad_value);
  CHECK(of(1000, 4096).text == "card host:0: segments of 1000 bytes are no whole number of pages; choose a multiple of 4096");
  CHECK(of(0, 4096).code == errc::bad_value);
  CHECK(of(4096, 0).code == errc::bad_value);
  CHECK(of(1 * mib, (std::uint64_t{8} << 40) + 1).code == errc::bad_value);
  CHECK(of(1 * mib, ~std::uint64_t{0}).code == errc::bad_value);
}

// An arena without memory, whose device refuses when told to.
class refusing_arena final : public arena {
 public:
  explicit refusing_arena(segment_layout layout) : arena(layout) {}
  std::byte* base() const noexcept override { return nullptr; }
  result<std::uint64_t> free_bytes() const override { return layout().full_bytes - held_bytes(); }
  bool refuses = false;

 private:
  result<void> answer() const { return refuses ? result<void>(fail(errc::card_lost, "refused")) : result<void>(); }
  result<void> do_map(segment_index) override { return answer(); }
  result<void> do_unmap(segment_index) override { return answer(); }
  result<void> do_remap(segment_index) override { return answer(); }
  void do_release(segment_index) noexcept override {}
  result<void> do_begin_copy_in(std::uint64_t, std::span<const std::byte>) override { return answer(); }
  result<void> do_begin_copy_within(std::uint64_t, std::uint64_t, std::uint64_t) override { return answer(); }
};

TEST_CASE("a step that the device refuses changes no state and no figure") {
  refusing_arena arena({512, 1000});
  const auto check_unchanged = [&](segment_index segment, result<void> (arena::*step)(segment_index)) {
    const auto state = arena.state(segment);
    const auto figures = std::tuple(arena.mapped_count(), arena.mapped_bytes(), arena.held_bytes());
    arena.refuses = true;
    CHECK_FALSE((arena.*step)(segment));
    arena.refuses = false;
    CHECK(arena.state(segment) == state);
    CHECK(figures == std::tuple(arena.mapped_count(), arena.mapped_bytes(), arena.held_bytes()));
  };
  check_unchanged(1, &arena::map);
  REQUIRE(arena.map(1));
  check_unchanged(1, &arena::unmap);
  REQUIRE(arena.unmap(1));
  check_unchanged(1, &arena::remap);
}

TEST_CASE("states and figures agree with a naive model under random steps") {
  const auto seed = GENERATE(range(0u, 8u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  refusing_arena arena({512, 512 * 9 + 100});
  std::vector<segment_state> model(10, segment_state::absent);

  for (int step = 0; step < 2000; ++step) {
    const segment_index segment = random() % 10;
    arena.refuses = random() % 4 == 0;
    segment_state& state = model[segment];
    if (state == segment_state::absent) {
      if (arena.map(segment)) state = segment_state::mapped;
    } else if (state == segment_state::mapped) {
      if (arena.unmap(segment)) state = segment_state::unmapped;
    } else if (random() % 2) {
      if (arena.remap(segment)) state = segment_state::mapped;
    } else {
      arena.release(segment);
      state = segment_state::absent;
    }

    std::uint64_t mapped_bytes = 0, held_bytes = 0;
    for (segment_index i = 0; i < 10; ++i) {
      REQUIRE(arena.state(i) == model[i]);
      REQUIRE(arena.is_mapped(i * 512, 1) == (model[i] == segment_state::mapped));
      if (model[i] == segment_state::mapped) mapped_bytes += i == 9 ? 100 : 512;
      if (model[i] != segment_state::absent) held_bytes += i == 9 ? 100 : 512;
    }
    REQUIRE(arena.mapped_bytes() == mapped_bytes);
    REQUIRE(arena.held_bytes() == held_bytes);
    REQUIRE(arena.mapped_count() == std::count(model.begin(), model.end(), segment_state::mapped));
  }
}

}  // namespace
}  // namespace ebb::kernels

#include "kernels/memory/pinned_store.hpp"
#include "tests/kernels/support/pinning_gpu.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <unistd.h>

using namespace ebb;
using namespace ebb::kernels;
using Catch::Contains;
using test::pinning_gpu;

namespace {

std::vector<std::byte> random_bytes(std::size_t n) {
  std::mt19937_64 random(n);
  std::vector<std::byte> bytes(n);
  for (std::size_t at = 0; at < n; at += sizeof(std::uint64_t)) {
    const std::uint64_t some = random();
    std::memcpy(&bytes[at], &some, std::min(sizeof some, n - at));
  }
  return bytes;
}

// A file of these bytes, which has no name any more.
class unnamed_file {
 public:
  explicit unnamed_file(std::span<const std::byte> bytes) {
    char name[] = "/tmp/ebb-store-XXXXXX";
    number_ = ::mkstemp(name);
    REQUIRE(number_ >= 0);
    ::unlink(name);
    REQUIRE(::write(number_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~unnamed_file() { ::close(number_); }
  int number() const { return number_; }

 private:
  int number_;
};

// Three pieces of a file, the second larger than what a thread reads at a time, and one that is only in memory.
struct sources {
  std::vector<std::byte> bytes = random_bytes(40u << 20);
  unnamed_file file{bytes};
  std::vector<store_piece> pieces;
  std::vector<store_group> groups;  // each piece alone

  sources() {
    const std::span all(bytes);
    for (const auto& [offset, size] : {std::pair<std::size_t, std::size_t>{7, 4097}, {5000, 36u << 20}, {38u << 20, 1u << 20}}) {
      pieces.push_back({all.subspan(offset, size), file.number(), offset});
    }
    pieces.push_back({all.subspan(1, 100'000)});
    for (const store_piece& piece : pieces) groups.push_back({{piece}});
  }
};

bool holds(const pinned_store& store, const sources& from) {
  for (std::size_t i = 0; i < from.pieces.size(); ++i) {
    if (std::memcmp(store.piece(i, 0), from.pieces[i].mapped.data(), from.pieces[i].mapped.size()) != 0) return false;
  }
  return true;
}

store_options by_threads(unsigned n_threads) {
  return {.name = "card 0", .n_threads = n_threads, .progress = {}, .stop = {}, .give_up_cache = true};
}

}  // namespace

TEST_CASE("a store holds what the pieces are, read by one thread or several") {
  const sources from;
  for (const unsigned n_threads : {1u, 2u, 5u, 1000u}) {
    const auto gpu = std::make_shared<pinning_gpu>();
    const auto store = pinned_store::read(from.groups, gpu, by_threads(n_threads));
    REQUIRE(store);
    CHECK(holds(**store, from));
    CHECK((*store)->held_bytes() == 38u << 20);
  }
}

TEST_CASE("the parts of a group's pieces lie together, part 0 of each piece first") {
  const std::vector<std::byte> bytes = random_bytes(6u << 20);
  const unnamed_file file(bytes);
  const std::span all(bytes);
  constexpr std::uint32_t n_parts = 5;
  constexpr std::size_t large = 300'001, small = 77;  // of a part
  const store_group of_three{{{all.subspan(3, n_parts * large), file.number(), 3},
                              {all.subspan(2u << 20, n_parts * small)},
                              {all.subspan(3u << 20, n_parts * large), file.number(), 3u << 20}},
                             n_parts};
  const std::vector<store_group> groups{{{{all.first(1000)}}}, of_three};
  const auto store = pinned_store::read(groups, std::make_shared<pinning_gpu>(), by_threads(3));
  REQUIRE(store);
  const std::uint64_t stride = (*store)->stride_bytes(1);
  CHECK(stride % 64 == 0);
  CHECK(stride >= 2 * large + small);
  CHECK(stride < 2 * large + small + 64);
  CHECK((*store)->piece(1, 1) == (*store)->piece(1, 0) + large);
  CHECK((*store)->piece(1, 2) == (*store)->piece(1, 1) + small);
  for (std::size_t i = 0; i < of_three.pieces.size(); ++i) {
    const std::span<const std::byte> piece = of_three.pieces[i].mapped;
    const std::size_t size = piece.size() / n_parts;
    for (std::uint32_t part = 0; part < n_parts; ++part) {
      CHECK(std::memcmp((*store)->piece(1, i) + part * stride, piece.data() + part * size, size) == 0);
    }
  }
}

TEST_CASE("a store is pinned as whole huge pages, and unpinned when it ends") {
  const sources from;
  const auto gpu = std::make_shared<pinning_gpu>();
  {
    const auto store = pinned_store::read(from.groups, gpu, by_threads(2));
    REQUIRE(store);
    CHECK((*store)->pinned());
    CHECK((*store)->warning().empty());
    REQUIRE(gpu->pinned.size() == 1);
    const auto& [base, size] = *gpu->pinned.begin();
    CHECK(reinterpret_cast<std::uintptr_t>(base) % (2u << 20) == 0);
    CHECK(size % (2u << 20) == 0);
    CHECK(base <= (*store)->piece(0, 0));
    CHECK((*store)->piece(3, 0) + from.pieces[3].mapped.size() <= static_cast<std::byte*>(base) + size);
    for (std::size_t i = 0; i < from.pieces.size(); ++i) CHECK(reinterpret_cast<std::uintptr_t>((*store)->piece(i, 0)) % 4096 == 0);
  }
  CHECK(gpu->pinned.empty());
}

TEST_CASE("where pinning is refused the store holds the same bytes, and warns of what it costs and of the way out") {
  const sources from;
  const auto gpu = std::make_shared<pinning_gpu>();
  gpu->refusal = error{errc::out_of_memory, "the limit of locked memory is 8 MiB"};
  const auto store = pinned_store::read(from.groups, gpu, by_threads(2));
  REQUIRE(store);
  CHECK(holds(**store, from));
  CHECK_FALSE((*store)->pinned());
  CHECK_THAT((*store)->warning(), Contains("card 0") && Contains("the limit of locked memory is 8 MiB") && Contains("9 GB/s") &&
                                      Contains("55") && Contains("ulimit -l"));
}

TEST_CASE("a GPU that fails while it pins ends the read with its error, and is no reason to go on without") {
  const sources from;
  const auto gpu = std::make_shared<pinning_gpu>();
  gpu->refusal = error{errc::card_lost, "cuda: an illegal address was met"};
  const auto store = pinned_store::read(from.groups, gpu, by_threads(2));
  REQUIRE_FALSE(store);
  CHECK(store.error().code == errc::card_lost);
  CHECK_THAT(store.error().text, Contains("card 0") && Contains("an illegal address was met"));
}

TEST_CASE("progress never goes back, is told by the caller's thread and ends with 1") {
  const sources from;
  store_options options = by_threads(3);
  std::vector<double> said;
  const auto caller = std::this_thread::get_id();
  bool elsewhere = false;
  options.progress = [&](double done) {
    said.push_back(done);
    elsewhere |= std::this_thread::get_id() != caller;
  };
  REQUIRE(pinned_store::read(from.groups, std::make_shared<pinning_gpu>(), options));
  CHECK_FALSE(elsewhere);
  REQUIRE_FALSE(said.empty());
  CHECK(said.front() > 0);
  CHECK(std::is_sorted(said.begin(), said.end()));
  CHECK(said.back() == 1.0);
}

TEST_CASE("a stop while a store is read ends it with cancelled, and pins nothing") {
  const sources from;
  std::stop_source stop;
  store_options options = by_threads(2);
  options.stop = stop.get_token();
  options.progress = [&](double) { stop.request_stop(); };
  const auto gpu = std::make_shared<pinning_gpu>();
  SECTION("before it begins") { stop.request_stop(); }
  SECTION("after the first chunk") {
    options.n_threads = 1;  // others might have taken the last chunks by then
  }
  const auto store = pinned_store::read(from.groups, gpu, options);
  REQUIRE_FALSE(store);
  CHECK(store.error().code == errc::cancelled);
  CHECK(gpu->pinned.empty());
}

TEST_CASE("a file that ends before a piece does is an error with the card's name") {
  const sources from;
  std::vector<store_group> groups = from.groups;
  groups[1].pieces[0].offset_bytes = from.bytes.size() - 100;
  const auto store = pinned_store::read(groups, std::make_shared<pinning_gpu>(), by_threads(2));
  REQUIRE_FALSE(store);
  CHECK(store.error().code == errc::file_unreadable);
  CHECK_THAT(store.error().text, Contains("card 0") && Contains("shorter"));
}

TEST_CASE("a store that the system has no memory for says how much it needs and takes nothing") {
  const std::vector<std::byte> bytes(1);
  const store_group endless{{{{bytes.data(), std::size_t{1} << 46}}}};  // only its size is looked at
  const auto store = pinned_store::read(std::span(&endless, 1), std::make_shared<pinning_gpu>(), by_threads(1));
  REQUIRE_FALSE(store);
  CHECK(store.error().code == errc::out_of_memory);
  CHECK_THAT(store.error().text, Contains("card 0") && Contains("67108864 MiB"));
}

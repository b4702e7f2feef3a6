#include "tools/memory_parts.hpp"
#include <catch2/catch.hpp>

namespace ebb::tools {
namespace {

bus::card_info a_gpu(std::uint32_t device, const char* uuid) {
  bus::card_info card;
  card.kind = "cuda";
  card.uuid = uuid;
  card.memory_mib = 10'000;
  card.held_mib = 6'000;
  card.report.device = device;
  card.report.expert_cache_mib = 4'500;
  card.report.vram_free_mib = 3'000;
  card.report.reserve_mib = 700;
  return card;
}

bus::lease_info lent(std::uint32_t device, std::uint32_t mib) {
  bus::lease_info lease;
  lease.device = device;
  lease.mib = mib;
  return lease;
}

}  // namespace

TEST_CASE("a GPU's memory is its cache, what the card holds besides, what others hold and what is free") {
  const auto card = a_gpu(0, "GPU-a");
  const memory_parts parts = parts_of(card, {card}, {});
  CHECK(parts.cache == 4'500);
  CHECK(parts.rest == 1'500);
  CHECK(parts.others == 1'000);
  CHECK(parts.free == 3'000);
  CHECK(parts.lent == 0);
  CHECK(parts.total() == 10'000);
}

TEST_CASE("what is lent and not taken yet is not free, and what is lent and taken is nobody else's") {
  const auto card = a_gpu(0, "GPU-a");
  const memory_parts waiting = parts_of(card, {card}, {lent(0, 2'000), lent(1, 5'000)});
  CHECK(waiting.lent == 2'000);
  CHECK(waiting.free == 1'000);
  CHECK(waiting.others == 1'000);
  CHECK(waiting.total() == 10'000);
  auto taken = card;
  taken.report.vram_free_mib = 800;
  taken.held_mib = 6'000;
  const memory_parts used = parts_of(taken, {taken}, {lent(0, 2'000)});
  CHECK(used.lent == 2'000);
  CHECK(used.total() == 10'000);
}

TEST_CASE("two cards of one GPU do not count each other's memory as others'") {
  auto one = a_gpu(0, "GPU-a"), two = a_gpu(1, "GPU-a"), apart = a_gpu(2, "GPU-b");
  one.held_mib = two.held_mib = 3'000;
  one.report.expert_cache_mib = 2'000;
  const memory_parts parts = parts_of(one, {one, two, apart}, {});
  CHECK(parts.beside == 3'000);
  CHECK(parts.others == 1'000);
  CHECK(parts.total() == 10'000);
}

TEST_CASE("figures that contradict each other for a moment make no part negative") {
  auto card = a_gpu(0, "GPU-a");
  card.report.vram_free_mib = 9'000;
  card.held_mib = 4'000;
  const memory_parts parts = parts_of(card, {card}, {lent(0, 50'000)});
  for (const double each : {parts.cache, parts.rest, parts.beside, parts.lent, parts.others, parts.free}) CHECK(each >= 0);
  CHECK(parts.free == 0);
}

}  // namespace ebb::tools

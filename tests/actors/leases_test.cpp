// What the ledger promises to whom, alone: no actor, no card, and the time is what the test says.
#include "actors/ledger.hpp"
#include "config/limits.hpp"
#include <catch2/catch.hpp>

namespace ebb::actors {
namespace {

using namespace std::chrono_literals;

constexpr time_point start{24h};
constexpr std::uint64_t unix_start = 1'700'000'000'000;

bus::lease wanted(std::uint32_t device, std::uint32_t mib, std::optional<std::uint32_t> ttl_s = {}) {
  bus::lease asked;
  asked.action = "acquire";
  asked.owner = "comfy";
  asked.device = device;
  asked.mib = mib;
  asked.ttl_s = ttl_s;
  return asked;
}

bool everybody(std::uint32_t, std::uint64_t) { return true; }

std::uint64_t lend(ledger& book, std::uint32_t device, std::uint32_t mib, std::optional<std::uint32_t> ttl_s = {}, time_point now = start) {
  if (!book.lends({device})) book.note_together({device}, 12000);
  return book.grant(wanted(device, mib, ttl_s), {}, mib, 0, now).id;
}

TEST_CASE("without a lease a card has no ceiling, and with one it is what reserve and lease leave of the whole") {
  ledger book({700, 0});
  CHECK_FALSE(book.ceiling_mib({0}, 700));
  lend(book, 0, 8000);
  CHECK(book.ceiling_mib({0}, 700) == 12000.0 - 700 - 8000);
  CHECK_FALSE(book.ceiling_mib({1}, 0));
}

TEST_CASE("two leases on one card add up, and each of several cards has its own") {
  ledger book({0, 0});
  lend(book, 0, 3000);
  lend(book, 0, 4000);
  lend(book, 1, 1000);
  CHECK(book.ceiling_mib({0}, 0) == 5000.0);
  CHECK(book.ceiling_mib({0}, 0, 2000) == 3000.0);
  CHECK(book.ceiling_mib({1}, 0) == 11000.0);
}

TEST_CASE("what is promised is not promised again, though its holder has not taken it yet") {
  ledger book({700});
  lend(book, 0, 8000);
  CHECK(book.room_mib({0}, 700) == 3300);
  CHECK(book.room_mib({0}, 4500) == 0);
  lend(book, 0, 3300);
  CHECK(book.room_mib({0}, 700) == 0);
}

TEST_CASE("what a reserve and the leases beside it lack is known while something is lent") {
  ledger book({700});
  CHECK(book.short_mib({0}, 20000) == 0);
  lend(book, 0, 8000);
  CHECK(book.short_mib({0}, 700 + 3300) == 0);
  CHECK(book.short_mib({0}, 700 + 3301) == 1);
}

TEST_CASE("a ceiling is never below zero") {
  ledger book({700});
  lend(book, 0, 11900);
  CHECK(book.ceiling_mib({0}, 700) == 0.0);
  CHECK(book.ceiling_mib({0}, 50000) == 0.0);
}

TEST_CASE("once the last lease of a card has ended its memory is read anew") {
  ledger book({0});
  const auto first = lend(book, 0, 3000), second = lend(book, 0, 3000);
  REQUIRE(book.end(first, lease_cause::released));
  CHECK(book.lends({0}));
  CHECK(book.ceiling_mib({0}, 0) == 9000.0);
  REQUIRE(book.end(second, lease_cause::released));
  CHECK_FALSE(book.lends({0}));
  CHECK_FALSE(book.ceiling_mib({0}, 0));
}

TEST_CASE("what the watcher leaves and what leases leave both hold: the smaller counts") {
  ledger book({0});
  book.yield({0}, 5000);
  CHECK(book.ceiling_mib({0}, 0) == 5000.0);
  lend(book, 0, 4000);
  CHECK(book.ceiling_mib({0}, 0) == 5000.0);
  lend(book, 0, 4000);
  CHECK(book.ceiling_mib({0}, 0) == 4000.0);
  book.yield({0}, {});
  CHECK(book.ceiling_mib({0}, 0) == 4000.0);
}

TEST_CASE("a lease ends when its time is over, and not before") {
  ledger book({0});
  const auto id = lend(book, 0, 100, 60);
  CHECK(book.next_end() == start + 60s);
  CHECK(book.take_ended(start + 59s, everybody).empty());
  const auto ended = book.take_ended(start + 60s, everybody);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].lease.id == id);
  CHECK(ended[0].cause == lease_cause::expired);
  CHECK(book.leases().empty());
}

TEST_CASE("a renew counts from now, also to a shorter time") {
  ledger book({0});
  const auto id = lend(book, 0, 100, 60);
  REQUIRE(book.renew(id, 100, start + 30s));
  CHECK(book.next_end() == start + 130s);
  REQUIRE(book.renew(id, 10, start + 40s));
  CHECK(book.next_end() == start + 50s);
  REQUIRE(book.renew(id, {}, start + 45s));
  CHECK(book.next_end() == start + 45s + std::chrono::seconds(limits::lease_ttl_s_default));
}

TEST_CASE("a lease that expired is not revived by a renew") {
  ledger book({0});
  const auto id = lend(book, 0, 100, 60);
  const auto late = book.renew(id, 60, start + 60s);  // before anybody looked
  REQUIRE_FALSE(late);
  CHECK(late.error().code == errc::unknown_lease);
  CHECK(book.take_ended(start + 60s, everybody).size() == 1);
  CHECK_FALSE(book.renew(id, 60, start + 61s));
}

TEST_CASE("a lease ends with its holder, and a later process of the same number is not the holder") {
  ledger book({0});
  book.note_together({0}, 12000);
  auto asked = wanted(0, 100);
  asked.pid = 4711;
  const auto id = book.grant(asked, {}, 100, 55, start).id;
  CHECK(book.watches_processes());
  const auto lives_since = [](std::uint64_t began) { return [began](std::uint32_t pid, std::uint64_t wanted) { return pid == 4711 && wanted == began; }; };
  CHECK(book.take_ended(start, lives_since(55)).empty());
  const auto ended = book.take_ended(start, lives_since(77));
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].lease.id == id);
  CHECK(ended[0].cause == lease_cause::holder_ended);
}

TEST_CASE("a lease that was never given, or was ended already, is unknown") {
  ledger book({0});
  const auto id = lend(book, 0, 100);
  REQUIRE(book.end(id, lease_cause::released));
  const auto again = book.end(id, lease_cause::released);
  REQUIRE_FALSE(again);
  CHECK(again.error().code == errc::unknown_lease);
  CHECK_THAT(again.error().text, Catch::Contains("no lease 1"));
  CHECK_FALSE(book.end(99, lease_cause::released));
}

TEST_CASE("a request whose id is text is given its lease once, and one with a number each time") {
  ledger book({0});
  book.note_together({0}, 12000);
  const bus::request_id name{std::string("job-7d1f")}, number{std::uint64_t{7}};
  const auto first = book.grant(wanted(0, 100), name, 100, 0, start).id;
  book.grant(wanted(0, 100), number, 100, 0, start);
  REQUIRE(book.given_for(wanted(0, 100), name) != nullptr);
  CHECK(book.given_for(wanted(0, 100), name)->id == first);
  CHECK(book.given_for(wanted(0, 100), number) == nullptr);
  auto other = wanted(0, 100);
  other.owner = "blender";
  CHECK(book.given_for(other, name) == nullptr);
}

TEST_CASE("leases for unknown devices, and more than the most there may be, are refused by name") {
  ledger book({0, 0});
  const auto unknown = book.check(wanted(2, 100));
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == errc::unknown_device);
  CHECK_THAT(unknown.error().text, Catch::Contains("no device 2") && Catch::Contains("0 to 1"));
  for (std::uint32_t count = 0; count < limits::leases_max; ++count) lend(book, 0, 1);
  const auto full = book.check(wanted(0, 1));
  REQUIRE_FALSE(full);
  CHECK(full.error().code == errc::busy);
}

TEST_CASE("reserves and leases outlive the process, with the time that is left of them, and ids go on") {
  ledger before({700, 700});
  before.set({{1}, 5000});
  lend(before, 0, 3000, 100);
  const auto renewed = lend(before, 1, 2000, 200);
  REQUIRE(before.end(1, lease_cause::released));
  const auto kept = before.state(start + 50s, unix_start);

  ledger after({700, 700});
  const time_point later{3h};  // another process, another clock
  REQUIRE(after.restore(kept, later, unix_start + 20'000));
  CHECK(after.reserve_mib({1}) == 5000);
  REQUIRE(after.leases().size() == 1);
  CHECK(after.leases()[0].id == renewed);
  CHECK(after.leases()[0].ends == later + 130s);
  CHECK(after.ceiling_mib({1}, 5000) == 12000.0 - 5000 - 2000);
  CHECK_FALSE(after.ceiling_mib({0}, 700));
  CHECK(lend(after, 0, 1, {}, later) == renewed + 1);
}

TEST_CASE("a reserve that nobody asked for, or that was taken back, is what the settings say at the next start") {
  ledger before({700, 700});
  before.set({{1}, 5000});
  before.set({{1}, 700});
  ledger after({0, 900});
  REQUIRE(after.restore(before.state(start, unix_start), start, unix_start));
  CHECK(after.reserve_mib({0}) == 0);
  CHECK(after.reserve_mib({1}) == 900);
}

TEST_CASE("what a cache gave way to outlives the process") {
  ledger before({0, 0});
  before.yield({1}, 250.5);
  ledger after({0, 0});
  REQUIRE(after.restore(before.state(start, unix_start), start, unix_start));
  CHECK_FALSE(after.yield_mib({0}));
  CHECK(after.yield_mib({1}) == 250.5);
  CHECK(after.ceiling_mib({1}, 0) == 250.5);
}

TEST_CASE("what expired while no daemon ran is not revived by a restart, and a clock set back makes no lease longer than any may be") {
  ledger before({0});
  lend(before, 0, 3000, 100);
  const auto kept = before.state(start, unix_start);
  ledger late({0});
  REQUIRE(late.restore(kept, start, unix_start + 100'000));
  CHECK(late.leases().empty());
  CHECK_FALSE(late.lends({0}));
  ledger early({0});
  REQUIRE(early.restore(kept, start, 0));
  REQUIRE(early.leases().size() == 1);
  CHECK(early.leases()[0].ends <= start + std::chrono::seconds(limits::lease_ttl_s_max));
}

TEST_CASE("the state of a run with other cards is refused and changes nothing") {
  const ledger before({0, 0});
  ledger after({700});
  const auto refused = after.restore(before.state(start, unix_start), start, unix_start);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_value);
  CHECK_THAT(refused.error().text, Catch::Contains("2 card(s)") && Catch::Contains("has 1"));
  CHECK(after.reserve_mib({0}) == 700);
}

TEST_CASE("the state survives its bytes, and damaged bytes are an error") {
  ledger before({700, 1});
  lend(before, 0, 3000, 100);
  auto asked = wanted(1, 5);
  asked.pid = 12;
  before.note_together({1}, 7.5);
  before.grant(asked, {std::string("name")}, 5, 99, start);
  const auto kept = before.state(start, unix_start);
  const auto bytes = bus::encode_state(kept);
  const auto read = bus::decode_state(bytes);
  REQUIRE(read);
  CHECK(*read == kept);
  for (std::size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(bus::decode_state(bus::bytes_view(bytes).first(size)));
}

}  // namespace
}  // namespace ebb::actors

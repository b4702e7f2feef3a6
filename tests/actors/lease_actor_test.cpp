// Leases through the gateway, with real cards: what a client sees, what the cards hold, what is written down.
#include "config/limits.hpp"
#include "support/cast.hpp"
#include "support/failing_arena.hpp"

namespace ebb::actors {
namespace {

using namespace std::chrono_literals;
using test::cast;
using test::said;

const bus::client_id ada{"ada"}, bob{"bob"};

bus::lease acquire(std::uint32_t mib, std::uint32_t device = 0) {
  bus::lease asked;
  asked.action = "acquire";
  asked.owner = "painter";
  asked.device = device;
  asked.mib = mib;
  asked.ttl_s = 60;
  return asked;
}

bus::lease about(const std::string& action, std::optional<std::uint64_t> id = {}) {
  bus::lease asked;
  asked.action = action;
  asked.lease_id = id;
  return asked;
}

// The demo model's cache takes some 24 MiB; this card has that and nothing more, so each MiB lent is one that the cache gives back.
const test::cast_options one_card{.first_layers = {0}};

// A card of 24 MiB that others use too, and that can fail. Not loaded yet.
test::cast_options one_card_on(test::shared_device& device) {
  device.size_bytes = 24u << 20;
  test::cast_options options = one_card;
  options.load = false;
  options.shape_card = [&device](card_options& of) {
    of.card_bytes = device.size_bytes;
    of.make_arena = [&device](const kernels::segment_layout& layout, std::uint64_t) -> result<std::unique_ptr<kernels::arena>> {
      return std::make_unique<test::failing_arena>(layout, &device);
    };
  };
  return options;
}

template <class Body>
const Body* answer(const cast& actors, const bus::client_id& client, std::uint64_t id) {
  for (const said& each : actors.replies) {
    if (each.to == client && each.what.id == bus::request_id{id} && each.what.last()) return std::get_if<Body>(&each.what.body);
  }
  return nullptr;
}

void send(cast& actors, const bus::client_id& client, std::uint64_t id, bus::command what) { actors.send(client, {{id}, false, std::move(what)}); }

bus::lease_report granted(cast& actors, std::uint64_t id, const bus::lease& asked) {
  send(actors, ada, id, asked);
  actors.run();
  const auto* report = answer<bus::lease_report>(actors, ada, id);
  if (report == nullptr) FAIL("not granted");
  return *report;
}

bus::card_report card(cast& actors, std::size_t number = 0) { return actors.ask<bus::card_info>(actors.cards[number], info_atom::value)->report; }

template <class Event>
std::size_t count(const cast& actors) {
  return static_cast<std::size_t>(std::count_if(actors.events.begin(), actors.events.end(), [](const auto& each) { return std::holds_alternative<Event>(each); }));
}

TEST_CASE("a lease is answered when its memory is free, written down and told to those who listen") {
  cast actors(one_card);
  const auto full = card(actors);
  const auto report = granted(actors, 1, acquire(8));
  REQUIRE(report.leases.size() == 1);
  CHECK(report.leases[0].mib == 8);
  CHECK(report.leases[0].ends_in_s == Approx(60));
  REQUIRE(report.cards.size() == 1);
  CHECK(report.cards[0].vram_free_mib >= 8);
  CHECK(report.cards[0].expert_cache_mib <= full.expert_cache_mib - 8);
  CHECK(report.cards[0].expert_cache_mib > full.expert_cache_mib - 9.1);
  REQUIRE(actors.kept);
  REQUIRE(actors.kept->leases.size() == 1);
  CHECK(actors.kept->leases[0].mib == 8);
  CHECK(count<bus::lease_granted>(actors) == 1);
  CHECK(count<bus::resized>(actors) == 1);
}

TEST_CASE("leases add up, and a release gives the cache back what the others leave") {
  cast actors(one_card);
  const double full = card(actors).expert_cache_mib;
  const auto first = granted(actors, 1, acquire(5)).leases[0].lease_id;
  granted(actors, 2, acquire(6));
  CHECK(card(actors).expert_cache_mib <= full - 11);
  send(actors, ada, 3, about("release", first));
  actors.run();
  REQUIRE(answer<bus::lease_report>(actors, ada, 3) != nullptr);
  CHECK(card(actors).expert_cache_mib <= full - 6);
  CHECK(card(actors).expert_cache_mib > full - 8);
  CHECK(actors.kept->leases.size() == 1);
  CHECK(count<bus::lease_ended>(actors) == 1);
}

TEST_CASE("a lease that expires is ended, and the cache grows back") {
  cast actors(one_card);
  const double full = card(actors).expert_cache_mib;
  granted(actors, 1, acquire(8));
  actors.pass(59s);
  CHECK(card(actors).expert_cache_mib < full);
  actors.pass(2s);
  CHECK(card(actors).expert_cache_mib == full);
  CHECK(actors.kept->leases.empty());
  send(actors, ada, 2, about("list"));
  actors.run();
  CHECK(answer<bus::lease_report>(actors, ada, 2)->leases.empty());
}

TEST_CASE("a lease ends with the process it was given to") {
  cast actors(one_card);
  actors.processes[4711] = 1000;
  auto asked = acquire(8);
  asked.pid = 4711;
  const double full = card(actors).expert_cache_mib;
  granted(actors, 1, asked);
  actors.pass(2s);
  CHECK(card(actors).expert_cache_mib < full);
  actors.processes[4711] = 2000;  // another one with its number
  actors.pass(2s);
  CHECK(card(actors).expert_cache_mib == full);
}

TEST_CASE("a lease for a process that is not there is refused by its number") {
  cast actors(one_card);
  auto asked = acquire(8);
  asked.pid = 4711;
  send(actors, ada, 1, asked);
  actors.run();
  const auto* why = answer<error>(actors, ada, 1);
  REQUIRE(why != nullptr);
  CHECK(why->code == errc::bad_value);
  CHECK_THAT(why->text, Catch::Contains("no process 4711"));
}

TEST_CASE("with more asked than the card has, acquire reports short_of and changes nothing") {
  cast actors(one_card);
  const auto before = card(actors);
  send(actors, ada, 1, acquire(1000));
  actors.run();
  const auto* why = answer<error>(actors, ada, 1);
  REQUIRE(why != nullptr);
  CHECK(why->code == errc::short_of);
  CHECK_THAT(why->text, Catch::Contains("can free") && Catch::Contains("nothing has changed"));
  CHECK(card(actors).expert_cache_mib == before.expert_cache_mib);
  CHECK_FALSE(actors.kept);
}

TEST_CASE("whoever takes less rather than nothing is given what there is, and told so") {
  cast actors(one_card);
  auto asked = acquire(1000);
  asked.min_mib = 4;
  const auto report = granted(actors, 1, asked);
  CHECK(report.leases[0].mib < 1000);
  CHECK(report.leases[0].mib >= 20);
  CHECK(card(actors).expert_cache_mib <= 1);  // less than a MiB was left, and MiB are what is lent
  CHECK_THAT(report.warning, Catch::Contains("of 1000 MiB could be freed") && Catch::Contains("CUDA context"));
}

TEST_CASE("an acquire that may wait is given its lease when another ends") {
  cast actors(one_card);
  const auto first = granted(actors, 1, acquire(20)).leases[0].lease_id;
  auto second = acquire(20);
  second.wait_s = 30;
  send(actors, bob, 1, second);
  actors.run();
  CHECK(answer<bus::lease_report>(actors, bob, 1) == nullptr);
  CHECK(answer<error>(actors, bob, 1) == nullptr);
  actors.pass(5s);
  send(actors, ada, 2, about("release", first));
  actors.run();
  REQUIRE(answer<bus::lease_report>(actors, bob, 1) != nullptr);
  CHECK(card(actors).vram_free_mib >= 20);
}

TEST_CASE("an acquire that has waited long enough is told what it is short of") {
  cast actors(one_card);
  granted(actors, 1, acquire(20));
  auto second = acquire(20);
  second.wait_s = 10;
  send(actors, bob, 1, second);
  actors.run();
  for (int second_passed = 0; second_passed < 12; ++second_passed) actors.pass(1s);
  const auto* why = answer<error>(actors, bob, 1);
  REQUIRE(why != nullptr);
  CHECK(why->code == errc::short_of);
}

TEST_CASE("a client that leaves before its lease is answered leaves no lease behind") {
  cast actors(one_card);
  const double full = card(actors).expert_cache_mib;
  send(actors, ada, 1, acquire(8));
  actors.run_only(actors.gateway);
  actors.leave(ada);
  actors.run();
  CHECK(actors.replies.empty());
  CHECK(actors.kept->leases.empty());
  CHECK(card(actors).expert_cache_mib == full);
}

TEST_CASE("a lease that cannot be written down is not given, and the cache has its memory back") {
  cast actors(one_card);
  const double full = card(actors).expert_cache_mib;
  actors.disk_is_full = true;
  send(actors, ada, 1, acquire(8));
  actors.run();
  const auto* why = answer<error>(actors, ada, 1);
  REQUIRE(why != nullptr);
  CHECK(why->code == errc::file_unwritable);
  CHECK(card(actors).expert_cache_mib == full);
}

TEST_CASE("a reserve that is set while memory is lent leaves the lease alone") {
  cast actors(one_card);
  const double full = card(actors).expert_cache_mib;
  granted(actors, 1, acquire(8));
  send(actors, bob, 1, bus::vram{4, 0});
  actors.run();
  CHECK(card(actors).expert_cache_mib <= full - 12);
  send(actors, bob, 2, bus::vram{{}, {}});
  actors.run();
  CHECK(card(actors).expert_cache_mib <= full - 8);
  CHECK(card(actors).expert_cache_mib > full - 10);
}

TEST_CASE("the cache grows back to what the reserve of now leaves, though the memory is let go only long after a command") {
  test::shared_device device;
  cast actors(one_card_on(device));
  REQUIRE(actors.ask<bus::card_info>(actors.cards[0], load_atom::value));
  send(actors, ada, 1, bus::vram{12, {}});
  actors.run();
  const auto lease = granted(actors, 2, acquire(8)).leases[0].lease_id;
  device.others_bytes = 8u << 20;
  send(actors, ada, 3, bus::vram{2, {}});
  actors.run();
  send(actors, ada, 4, about("release", lease));
  actors.run();
  actors.pass(5s);
  CHECK(card(actors).expert_cache_mib <= 14);
  device.others_bytes = 0;
  actors.pass(2s);
  CHECK(card(actors).expert_cache_mib > 21);
}

TEST_CASE("no lease is promised on a free figure that could not be read") {
  test::shared_device device;
  cast actors(one_card_on(device));
  REQUIRE(actors.ask<bus::card_info>(actors.cards[0], load_atom::value));
  device.refuses = [](test::operation kind) { return kind == test::operation::read_free; };
  const auto info = actors.ask<bus::card_info>(actors.cards[0], info_atom::value);
  REQUIRE_FALSE(info);
  CHECK_THAT(info.error().text, Catch::Contains("free"));
  send(actors, ada, 1, acquire(4));
  actors.run();
  CHECK(answer<bus::lease_report>(actors, ada, 1) == nullptr);
  device.refuses = nullptr;
}

TEST_CASE("a command whose growth fails half-way keeps the reserve that it says it keeps") {
  test::shared_device device;
  cast actors(one_card_on(device));
  REQUIRE(actors.ask<bus::card_info>(actors.cards[0], load_atom::value));
  REQUIRE(actors.ask<bus::vram_report>(actors.ledger, vram_atom::value, bus::vram{8, {}}));
  device.refuses = [](test::operation kind) { return kind == test::operation::copy_in; };
  REQUIRE_FALSE(actors.ask<bus::vram_report>(actors.ledger, vram_atom::value, bus::vram{2, {}}));
  device.refuses = nullptr;
  CHECK(card(actors).reserve_mib == 8);
  CHECK(card(actors).vram_free_mib >= 8);
}

TEST_CASE("a card whose size changed before its device fell silent is brought back to what the ledger holds") {
  const bool grows = GENERATE(false, true);
  test::shared_device device;
  cast actors(one_card_on(device));
  REQUIRE(actors.ask<bus::card_info>(actors.cards[0], load_atom::value));
  REQUIRE(actors.ask<bus::vram_report>(actors.ledger, vram_atom::value, bus::vram{8, {}}));
  const auto before = card(actors);
  int n_read = 0;
  device.refuses = [&](test::operation kind) { return kind == test::operation::read_free && n_read++ > 0; };  // the plan still has its figure
  const auto refused = actors.ask<bus::vram_report>(actors.ledger, vram_atom::value, bus::vram{grows ? 2u : 12u, {}});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().text, Catch::Contains("free"));
  device.refuses = nullptr;
  actors.pass(2s);
  CHECK(card(actors).reserve_mib == before.reserve_mib);
  CHECK(card(actors).expert_cache_mib == before.expert_cache_mib);
}

TEST_CASE("after a restart the leases that were written down hold, and the cache keeps below them") {
  std::optional<bus::ledger_state> kept;
  {
    cast before(one_card);
    granted(before, 1, acquire(8));
    send(before, ada, 2, bus::vram{3, 0});
    before.run();
    kept = before.kept;
  }
  auto options = one_card;
  options.restored = kept;
  cast after(options);
  send(after, ada, 1, about("list"));
  after.run();
  REQUIRE(answer<bus::lease_report>(after, ada, 1)->leases.size() == 1);
  CHECK(answer<bus::lease_report>(after, ada, 1)->leases[0].mib == 8);
  after.pass(61s);
  send(after, ada, 2, about("list"));
  after.run();
  CHECK(answer<bus::lease_report>(after, ada, 2)->leases.empty());
}

TEST_CASE("a request that is repeated by its name from another connection is given the same lease") {
  cast actors(one_card);
  const bus::request_id name{std::string("job-1")};
  actors.send(ada, {name, false, acquire(8)});
  actors.run();
  actors.send(bob, {name, false, acquire(8)});
  actors.run();
  REQUIRE(actors.replies.size() == 2);
  CHECK(std::get<bus::lease_report>(actors.replies[0].what.body).leases[0].lease_id == 1);
  CHECK(std::get<bus::lease_report>(actors.replies[1].what.body).leases[0].lease_id == 1);
  CHECK(actors.kept->leases.size() == 1);
}

TEST_CASE("the name of a lease that has ended is free again, and so is one that was refused for want of room") {
  cast actors(one_card);
  const bus::request_id name{std::string("job-1")};
  const auto ask = [&](std::uint32_t mib) {
    actors.send(ada, {name, false, acquire(mib)});
    actors.run();
    return actors.replies.back().what;
  };
  CHECK(std::get<error>(ask(1000).body).code == errc::short_of);
  CHECK(std::get<bus::lease_report>(ask(8).body).leases[0].lease_id == 1);
  CHECK(std::get<bus::lease_report>(ask(8).body).leases[0].lease_id == 1);
  actors.pass(61s);
  CHECK(std::get<bus::lease_report>(ask(8).body).leases[0].lease_id == 2);
}

TEST_CASE("an id that belongs to another request of the client is refused, and nothing is done") {
  cast actors(one_card);
  granted(actors, 1, acquire(8));
  send(actors, ada, 1, bus::vram{5, 0});
  actors.run();
  CHECK(std::get<error>(actors.replies.back().what.body).code == errc::bad_value);
  CHECK_THAT(std::get<error>(actors.replies.back().what.body).text, Catch::Contains("id 1 belongs to another request"));
  CHECK(card(actors).reserve_mib == 0);
}

TEST_CASE("after an acquire that was refused, what the card has is counted anew for the next one") {
  test::shared_device device;
  cast actors(one_card_on(device));
  device.others_bytes = 16u << 20;
  REQUIRE(actors.ask<bus::card_info>(actors.cards[0], load_atom::value));
  send(actors, ada, 1, acquire(12));
  actors.run();
  CHECK(answer<error>(actors, ada, 1) != nullptr);
  device.others_bytes = 0;
  granted(actors, 2, acquire(12));
}

TEST_CASE("who waits for room comes before one who asks later for less, on that card") {
  cast actors({.first_layers = {0, 3}});
  const auto first = granted(actors, 1, acquire(6)).leases[0].lease_id;
  auto large = acquire(8);
  large.wait_s = 30;
  send(actors, bob, 1, large);
  send(actors, bob, 2, acquire(2));
  auto patient = acquire(2);
  patient.wait_s = 30;
  send(actors, bob, 3, patient);
  send(actors, bob, 4, acquire(2, 1));
  actors.run();
  REQUIRE(answer<error>(actors, bob, 2) != nullptr);
  CHECK_THAT(answer<error>(actors, bob, 2)->text, Catch::Contains("others wait for room on card 0"));
  CHECK(answer<bus::lease_report>(actors, bob, 3) == nullptr);
  CHECK(answer<bus::lease_report>(actors, bob, 4) != nullptr);
  for (int second = 0; second < 5; ++second) actors.pass(1s);
  CHECK(answer<bus::lease_report>(actors, bob, 3) == nullptr);
  send(actors, ada, 2, about("release", first));
  actors.run();
  REQUIRE(answer<bus::lease_report>(actors, bob, 1) != nullptr);
  CHECK(answer<bus::lease_report>(actors, bob, 1)->leases[0].lease_id < answer<bus::lease_report>(actors, bob, 3)->leases[0].lease_id);
}

TEST_CASE("who waits is told when his time is over, not at the next look around") {
  cast actors(one_card);
  granted(actors, 1, acquire(20));
  actors.pass(300ms);
  auto second = acquire(20);
  second.wait_s = 1;
  send(actors, bob, 1, second);
  actors.run();
  for (int i = 0; i < 9; ++i) actors.pass(100ms);
  CHECK(answer<error>(actors, bob, 1) == nullptr);
  actors.pass(101ms);
  CHECK(answer<error>(actors, bob, 1) != nullptr);
}

TEST_CASE("an acquire whose process ends while it waits is ended too") {
  cast actors(one_card);
  granted(actors, 1, acquire(20));
  actors.processes[4711] = 1000;
  auto second = acquire(20);
  second.wait_s = 30;
  second.pid = 4711;
  send(actors, bob, 1, second);
  actors.run();
  actors.processes.clear();
  actors.pass(2s);
  REQUIRE(answer<error>(actors, bob, 1) != nullptr);
  CHECK(answer<error>(actors, bob, 1)->code == errc::cancelled);
}

TEST_CASE("what could not be written down is tried again until it is, and a renewal that could not be is none") {
  cast actors(one_card);
  const auto lease = granted(actors, 1, acquire(8)).leases[0].lease_id;
  actors.disk_is_full = true;
  auto renewal = about("renew", lease);
  renewal.ttl_s = 5000;
  send(actors, ada, 2, renewal);
  send(actors, ada, 3, about("list"));
  actors.run();
  CHECK(answer<error>(actors, ada, 2)->code == errc::file_unwritable);
  CHECK(answer<bus::lease_report>(actors, ada, 3)->leases[0].ends_in_s <= 60);
  send(actors, ada, 4, about("release", lease));
  actors.run();
  actors.pass(3s);
  CHECK(actors.kept->leases.size() == 1);
  actors.disk_is_full = false;
  actors.pass(2s);
  CHECK(actors.kept->leases.empty());
}

TEST_CASE("a card whose size is fixed lends nothing, and says which setting to change") {
  auto options = one_card;
  options.elastic = false;
  cast actors(options);
  send(actors, ada, 1, acquire(8));
  actors.run();
  const auto* why = answer<error>(actors, ada, 1);
  REQUIRE(why != nullptr);
  CHECK(why->code == errc::refused);
  CHECK_THAT(why->text, Catch::Contains("vram_elastic"));
}

TEST_CASE("plan says what a reserve would leave, and a reserve then leaves just that") {
  cast actors({.first_layers = {0, 3}});
  send(actors, ada, 1, bus::plan{5, 1});
  actors.run();
  const auto* foreseen = answer<bus::plan_report>(actors, ada, 1);
  REQUIRE(foreseen != nullptr);
  REQUIRE(foreseen->cards.size() == 2);
  CHECK(foreseen->cards[0].expert_slots == card(actors, 0).expert_slots);
  CHECK(foreseen->hit_rate_now == 1);
  CHECK(foreseen->hit_rate < 1);
  const auto expected = foreseen->cards[1];
  CHECK(card(actors, 1).expert_slots == card(actors, 1).expert_slots_full);
  send(actors, ada, 2, bus::vram{5, 1});
  actors.run();
  CHECK(card(actors, 1).expert_slots == expected.expert_slots);
  CHECK(card(actors, 1).expert_cache_mib == expected.expert_cache_mib);
}

TEST_CASE("plan for an unknown device is refused, and subscribe says where events come out") {
  cast actors(one_card);
  send(actors, ada, 1, bus::plan{5, 7});
  send(actors, ada, 2, bus::subscribe{});
  actors.run();
  REQUIRE(answer<error>(actors, ada, 1) != nullptr);
  CHECK(answer<error>(actors, ada, 1)->code == errc::unknown_device);
  REQUIRE(answer<bus::subscribed>(actors, ada, 2) != nullptr);
  CHECK(answer<bus::subscribed>(actors, ada, 2)->endpoints == std::vector<std::string>{"ipc:///events"});
}

}  // namespace
}  // namespace ebb::actors

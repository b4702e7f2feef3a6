// A card on a GPU of a simulation, alone and with all actors around it.
#include "support/cast.hpp"
#include "support/fake_gpu.hpp"

namespace ebb::actors {
namespace {

using test::cast;
using test::fake_gpu_driver;

constexpr std::uint64_t mib = 1u << 20;
constexpr std::uint32_t whole_mib = 24;  // of all experts of the demo model

resize_goal reserve_of(std::uint32_t reserve_mib) { return {.reserve_mib = reserve_mib, .extra_mib = 0, .extra_min_mib = 0, .ceiling_mib = {}}; }

card_options on(const fake_gpu_driver& driver, std::uint32_t number = 0) {
  card_options options = test::whole_card();
  auto gpu = driver.open(number);
  REQUIRE(gpu);
  options.gpu = *gpu;
  return options;
}

std::unique_ptr<card> filled(const card_options& options) {
  auto device = test::make_card(options);
  REQUIRE(device->begin_fill());
  while (!device->resize_step()) {
  }
  REQUIRE(device->end_resize());
  return device;
}

window one_row(std::uint32_t position) {
  window what{.number = position + 1, .rows = {}, .tokens = {token_id{1}}, .sampled = {}, .x = nullptr, .repeat = 0};
  what.rows.push_back({0, position});
  return what;
}

TEST_CASE("on a GPU the stage takes its memory first, and the cache what is free then beside the reserve, in whole segments") {
  fake_gpu_driver driver({20});
  driver.gpus[0]->context_bytes = 1 * mib;
  driver.gpus[0]->stage_bytes = 4 * mib;
  card_options options = on(driver);
  options.reserve_mib = 3;
  const auto device = filled(options);
  const bus::card_info info = device->info();
  CHECK(info.report.expert_cache_full_mib <= 12);
  CHECK(info.report.expert_cache_full_mib > 12 - 0.25);
  CHECK(info.report.expert_cache_mib == info.report.expert_cache_full_mib);
  CHECK(info.report.expert_slots == info.report.expert_slots_full);
  CHECK(info.report.vram_free_mib >= 3);
  CHECK_FALSE(info.resident);
}

TEST_CASE("cards that share a GPU stay within their shares of it, the stage and the cache together") {
  fake_gpu_driver driver({40});
  driver.gpus[0]->stage_bytes = 4 * mib;
  card_options options = on(driver);
  options.reserve_mib = 2;
  options.card_bytes = 20 * mib;
  const auto first = filled(options), second = filled(options);
  for (const card* each : {first.get(), second.get()}) {
    CHECK(each->info().report.expert_cache_mib <= 14);
    CHECK(each->info().report.expert_cache_mib > 14 - 0.25);
  }
  CHECK(driver.gpus[0]->memory.free_bytes() >= 4 * mib);
}

TEST_CASE("a card on a GPU names it, and says what it holds there") {
  fake_gpu_driver driver({100, 100});
  driver.gpus[1]->stage_bytes = 5 * mib;
  const auto device = filled(on(driver, 1));
  const bus::card_info info = device->info();
  CHECK(info.kind == "cuda");
  CHECK(info.gpu == 1u);
  CHECK(info.gpu_name == "Fake GPU");
  CHECK(info.pci_address == "0000:11:00.0");
  CHECK(info.uuid == "GPU-fake-1");
  CHECK(info.rss_mib == 0);
  REQUIRE(info.held_mib);
  CHECK(*info.held_mib == Approx(5 + info.report.expert_cache_mib));
  CHECK(info.resident);

  const bus::card_info host = test::make_card(test::whole_card())->info();
  CHECK(host.kind == "host");
  CHECK_FALSE(host.gpu);
  CHECK_FALSE(host.held_mib);
}

TEST_CASE("a GPU runs the fast path from its adoption to the first step of a shrink, and never merely because all experts are there") {
  fake_gpu_driver driver({100});
  const auto& gpu = *driver.gpus[0];
  const auto device = filled(on(driver));
  REQUIRE(device->memory().resident());
  std::uint32_t position = 0;
  const auto ran_resident = [&] {
    REQUIRE(device->run(one_row(position++)));
    return static_cast<bool>(gpu.windows_resident.back());
  };
  CHECK_FALSE(ran_resident());
  device->adopt_fast_path(device->residency().version);
  CHECK(ran_resident());
  REQUIRE(device->begin_resize(reserve_of(90)));
  CHECK_FALSE(ran_resident());
  while (!device->resize_step()) CHECK_FALSE(ran_resident());
  REQUIRE(device->end_resize());
  CHECK_FALSE(ran_resident());
}

TEST_CASE("a GPU's misses are told apart: what the CPU computed, and the rest, which was copied") {
  fake_gpu_driver driver({100});
  const auto device = filled(on(driver));
  REQUIRE(device->run(one_row(0)));
  CHECK(device->info().misses == 0);
  REQUIRE(device->begin_resize(reserve_of(100)));
  while (!device->resize_step()) {
  }
  REQUIRE(device->end_resize());
  REQUIRE(device->memory().cache().resident_count() == 0);
  driver.gpus[0]->misses_cpu = 5;
  REQUIRE(device->run(one_row(1)));
  REQUIRE(device->run(one_row(2)));
  const bus::card_info info = device->info();
  CHECK(info.misses == 2 * 6 * 4);
  CHECK(info.misses_cpu == 2 * 5);
  CHECK(info.misses_copied == info.misses - info.misses_cpu);
}

TEST_CASE("a GPU without room for the stage keeps the card from being made, and says which card") {
  fake_gpu_driver driver({10});
  driver.gpus[0]->stage_bytes = 11 * mib;
  const auto made = card::make(test::demo().weights, test::demo().vocabulary, on(driver), test::fastest_ops(), test::one_thread(), steady_clock());
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::out_of_memory);
  CHECK(made.error().text == "card 0: no room for the stage");
  CHECK(driver.gpus[0]->memory.free_bytes() == 10 * mib);
}

// The second of two cards is on a GPU.
struct half_on_gpu {
  fake_gpu_driver driver{{100}};
  cast actors{{.first_layers = {0, 3},
               .reserves_mib = {},
               .shape_card = [this](card_options& options) {
                 if (options.card.value == 1) options.gpu = driver.open(0).value();
               }}};

  void generate(std::uint64_t id) {
    bus::generate asked;
    asked.prompt = "Call me Ishmael";
    asked.max_tokens = 5;
    asked.ignore_eos = true;
    asked.stream = false;
    actors.send({"ada"}, {{id}, false, asked});
  }
  const bus::reply& last() const { return actors.replies.back().what; }
};

TEST_CASE("a GPU that fails ends its card: sessions are told why, an event names it, and everything else goes on answering") {
  half_on_gpu here;
  here.generate(1);
  here.actors.run();
  REQUIRE(std::holds_alternative<bus::done>(here.last().body));

  here.driver.gpus[0]->failure = error{errc::card_lost, "the GPU has fallen off the bus"};
  here.generate(2);
  here.actors.run();
  const auto* why = std::get_if<error>(&here.last().body);
  REQUIRE(why);
  CHECK(why->code == errc::card_lost);
  CHECK_THAT(why->text, Catch::Contains("card 1") && Catch::Contains("fallen off the bus") && Catch::Contains("start the daemon again"));
  CHECK(here.driver.gpus[0]->memory.caches == 0);  // it has given its memory back

  const auto lost = std::find_if(here.actors.events.begin(), here.actors.events.end(), [](const auto& each) { return std::holds_alternative<bus::card_lost>(each); });
  REQUIRE(lost != here.actors.events.end());
  CHECK(std::get<bus::card_lost>(*lost).device == 1);
  CHECK_THAT(std::get<bus::card_lost>(*lost).text, Catch::Contains("fallen off the bus"));

  here.generate(3);
  here.actors.run();
  REQUIRE(std::holds_alternative<error>(here.last().body));
  CHECK_THAT(std::get<error>(here.last().body).text, Catch::Contains("fallen off the bus"));
  here.actors.send({"ada"}, {{std::uint64_t{4}}, false, bus::status{}});
  here.actors.run();
  CHECK(std::holds_alternative<bus::status_report>(here.last().body));
  here.actors.send({"ada"}, {{std::uint64_t{5}}, false, bus::vram{5, 0}});  // the card that lives
  here.actors.run();
  REQUIRE(std::holds_alternative<bus::vram_report>(here.last().body));
  here.actors.send({"ada"}, {{std::uint64_t{6}}, false, bus::vram{5, 1}});
  here.actors.run();
  REQUIRE(std::holds_alternative<error>(here.last().body));
  CHECK(std::get<error>(here.last().body).code == errc::card_lost);
}

TEST_CASE("a GPU without memory for a window fails the sessions that were in it, and goes on with the next") {
  half_on_gpu here;
  here.driver.gpus[0]->failure = error{errc::out_of_memory, "3 MiB are free"};
  here.generate(1);
  here.actors.run();
  REQUIRE(std::holds_alternative<error>(here.last().body));
  CHECK(std::get<error>(here.last().body).code == errc::out_of_memory);
  CHECK_THAT(std::get<error>(here.last().body).text, Catch::Contains("card 1: 3 MiB are free"));
  here.driver.gpus[0]->failure.reset();
  here.generate(2);
  here.actors.run();
  CHECK(std::holds_alternative<bus::done>(here.last().body));
}

}  // namespace
}  // namespace ebb::actors

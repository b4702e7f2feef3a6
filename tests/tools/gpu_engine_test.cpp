// The engine on GPUs of a simulation, through the messages of the bus.
#include "tests/actors/support/fake_gpu.hpp"
#include "tests/tools/support/demo.hpp"
#include <future>
#include <mutex>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;
using actors::test::fake_gpu_driver;

namespace {

constexpr std::uint64_t mib = 1u << 20;

engine_options on(const std::shared_ptr<fake_gpu_driver>& driver, std::vector<card_choice> cards = {}) {
  engine_options options = demo_on(1);
  options.from.cards = std::move(cards);
  options.world.gpus = [driver]() -> result<std::shared_ptr<kernels::gpu_driver>> { return driver; };
  return options;
}

card_choice cuda(std::uint32_t gpu) { return {card_kind::cuda, gpu}; }

std::unique_ptr<local_connection> started(const engine_options& options) {
  auto local = local_connection::start(options);
  if (!local) throw std::runtime_error(local.error().text);
  return std::move(*local);
}

std::vector<bus::card_info> cards_of(const engine_options& options) { return answer_of<bus::cards_report>(*started(options), bus::cards{}).cards; }

error refusal_of(const engine_options& options) {
  const auto local = local_connection::start(options);
  REQUIRE_FALSE(local);
  return local.error();
}

}  // namespace

TEST_CASE("\"auto\" makes a card of every GPU, with layers by what is free on each, and answers") {
  const auto driver = std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{2000, 1000});
  const auto local = started(on(driver));
  const auto cards = answer_of<bus::cards_report>(*local, bus::cards{}).cards;
  REQUIRE(cards.size() == 2);
  CHECK(cards[0].layer_end == 4);
  CHECK(cards[1].layer_end == 6);
  for (std::uint32_t number = 0; number < 2; ++number) {
    CHECK(cards[number].kind == "cuda");
    CHECK(cards[number].gpu == number);
    CHECK(cards[number].report.reserve_mib == 700);
    CHECK(cards[number].report.prompt_chunk == limits::prompt_chunk_rows_gpu);
    CHECK(cards[number].resident);
    CHECK(driver->gpus[number]->opened == 1);
    CHECK(driver->gpus[number]->pinned > 0);  // the store that it reads its experts from
  }
  CHECK(answer_of<bus::done>(*local, greedy(20)).generated_tokens == 20);
}

TEST_CASE("without a driver \"auto\" is a host card, and a GPU that is named is refused with why") {
  engine_options options = demo_on(1);
  options.world.gpus = []() -> result<std::shared_ptr<kernels::gpu_driver>> { return fail(errc::unknown_device, "cuda: no driver: no module"); };
  options.from.cards = {};
  const auto cards = cards_of(options);
  REQUIRE(cards.size() == 1);
  CHECK(cards[0].kind == "host");
  options.from.cards = {cuda(1)};
  const error why = refusal_of(options);
  CHECK(why.code == errc::unknown_device);
  CHECK_THAT(why.text, Catch::Contains("\"cuda:1\"") && Catch::Contains("cuda: no driver"));
}

TEST_CASE("a GPU that is not there is refused in the words of the driver") {
  const error why = refusal_of(on(std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{1000}), {cuda(0), cuda(4)}));
  CHECK(why.code == errc::unknown_device);
  CHECK_THAT(why.text, Catch::Contains("`cards`") && Catch::Contains("\"cuda:4\"") && Catch::Contains("there is no GPU 4"));
}

TEST_CASE("two cards on one GPU open it once and share what is free on it, less the reserve") {
  const auto driver = std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{20});
  engine_options options = on(driver, {cuda(0), cuda(0)});
  options.from.vram_reserve_mib = {4};
  options.from.vram_segment_bytes = 256 << 10;
  const auto cards = cards_of(options);
  REQUIRE(cards.size() == 2);
  CHECK(driver->gpus[0]->opened == 1);
  for (const bus::card_info& card : cards) {
    CHECK(card.gpu == 0u);
    CHECK(card.report.expert_cache_mib <= 8);
    CHECK(card.report.expert_cache_mib > 8 - 0.25);
  }
  CHECK(cards[1].report.vram_free_mib >= 4);
}

TEST_CASE("a command to two cards on one GPU frees there what the reserve needs, and not twice that") {
  const auto driver = std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{20});
  engine_options options = on(driver, {cuda(0), cuda(0)});
  options.from.vram_reserve_mib = {4};
  options.from.vram_segment_bytes = 256 << 10;
  const auto local = started(options);
  const auto free_mib = [&] { return static_cast<double>(driver->gpus[0]->memory.free_bytes()) / mib; };
  for (const std::uint32_t reserve : {10u, 12u, 7u}) {
    const auto report = answer_of<bus::vram_report>(*local, bus::vram{reserve, {}});
    REQUIRE(report.cards.size() == 2);
    for (const bus::card_report& card : report.cards) CHECK(card.short_mib == 0);
    CHECK(free_mib() >= reserve);
    CHECK(free_mib() < reserve + 0.5);  // a segment of each
  }
  // Card 1 gives what card 0 at its floor cannot.
  const auto all = answer_of<bus::vram_report>(*local, bus::vram{15, {}});
  for (const bus::card_report& card : all.cards) CHECK(card.short_mib == 0);
  CHECK(free_mib() >= 15);
  const auto back = answer_of<bus::vram_report>(*local, bus::vram{std::nullopt, {}});
  for (const bus::card_report& card : back.cards) CHECK(card.expert_slots == card.expert_slots_full);
}

TEST_CASE("host cards and GPUs mix in one run, whose prompts then come in the chunks of a host card") {
  const auto driver = std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{1000});
  const auto local = started(on(driver, {card_choice{}, cuda(0)}));
  const auto cards = answer_of<bus::cards_report>(*local, bus::cards{}).cards;
  REQUIRE(cards.size() == 2);
  CHECK(cards[0].kind == "host");
  CHECK(cards[1].kind == "cuda");
  CHECK(cards[0].layer_end == 3);  // what is free on a host card says nothing of its speed: evenly
  for (const bus::card_info& card : cards) CHECK(card.report.prompt_chunk == limits::prompt_chunk_rows);
  CHECK(answer_of<bus::done>(*local, greedy(20)).generated_tokens == 20);
}

TEST_CASE("prompts reach a GPU in large windows while no other session decodes") {
  const auto driver = std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{1000});
  const auto local = started(on(driver));
  auto asked = greedy(2);
  asked.prompt.clear();
  asked.ids.assign(limits::prompt_chunk_rows_gpu + 30, 77);
  REQUIRE(answer_of<bus::done>(*local, asked).generated_tokens == 2);
  CHECK(driver->gpus[0]->windows == std::vector<std::size_t>{limits::prompt_chunk_rows_gpu, 30, 1});
}

TEST_CASE("a start waits for `min_free_vram_mib` before it takes a context, and warns of what it waits for") {
  const auto driver = std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{1000});
  driver->gpus[0]->memory.others_bytes = 500 * mib;
  engine_options options = on(driver);
  options.from.min_free_vram_mib = 800;
  std::vector<error> warnings;
  options.warn = [&](const error& what) { warnings.push_back(what); };
  options.world.pause = [&](std::chrono::milliseconds) {
    CHECK(driver->gpus[0]->opened == 0);
    driver->gpus[0]->memory.others_bytes = 0;  // the neighbour ends
  };
  const auto cards = cards_of(options);
  CHECK(cards[0].resident);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0].text, Catch::Contains("800 MiB") && Catch::Contains("cuda:0 (Fake GPU) has 500 MiB"));
}

TEST_CASE("without NVML a start waits for `min_free_vram_mib` once it has contexts, which alone tell what is free, and splits the layers by that") {
  const auto driver = std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{2000, 1000});
  driver->has_nvml = false;
  driver->gpus[0]->memory.others_bytes = 1500 * mib;
  engine_options options = on(driver);
  options.from.min_free_vram_mib = 800;
  std::vector<error> warnings;
  options.warn = [&](const error& what) { warnings.push_back(what); };
  options.world.pause = [&](std::chrono::milliseconds) {
    CHECK(driver->gpus[0]->opened == 1);
    driver->gpus[0]->memory.others_bytes = 0;  // the neighbour ends
  };
  const auto cards = cards_of(options);
  REQUIRE(cards.size() == 2);
  CHECK(cards[0].layer_end == 4);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0].text, Catch::Contains("800 MiB") && Catch::Contains("cuda:0 (Fake GPU) has 500 MiB"));
}

TEST_CASE("without NVML a start that waits in vain for `min_free_vram_mib` refuses, and names the GPU") {
  const auto driver = std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{1000});
  driver->has_nvml = false;
  driver->gpus[0]->context_bytes = 300 * mib;
  engine_options options = on(driver);
  options.from.min_free_vram_mib = 800;
  actors::time_point now{std::chrono::hours(1)};
  options.world.now = [&] { return now; };
  options.world.pause = [&](std::chrono::milliseconds time) { now += time; };
  const error why = refusal_of(options);
  CHECK(why.code == errc::short_of);
  CHECK_THAT(why.text, Catch::Contains("`min_free_vram_mib`") && Catch::Contains("cuda:0 (Fake GPU) has 700 MiB"));
}

TEST_CASE("with \"auto\" a start warns that a GPU is here and cannot be used, and serves from a host card") {
  engine_options options = demo_on(1);
  options.from.cards = {};
  options.world.gpus = []() -> result<std::shared_ptr<kernels::gpu_driver>> { return fail(errc::refused, "cuda: the driver is too old"); };
  std::vector<error> warnings;
  options.warn = [&](const error& what) { warnings.push_back(what); };
  CHECK(cards_of(options)[0].kind == "host");
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0].text, Catch::Contains("cuda: the driver is too old"));
}

TEST_CASE("a small lease on a GPU is warned of, since a context takes more") {
  const auto local = started(on(std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{1000})));
  bus::lease wanted;
  wanted.action = "acquire";
  wanted.owner = "painter";
  wanted.device = 0;
  wanted.mib = 20;
  CHECK_THAT(answer_of<bus::lease_report>(*local, wanted).warning, Catch::Contains("CUDA context"));
}

TEST_CASE("a GPU that hangs in a window does not keep the engine from ending") {
  const auto driver = std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{1000});
  std::promise<void> hangs, recovers;
  std::once_flag once;
  driver->gpus[0]->before_window = [&, recovered = recovers.get_future().share()] {
    std::call_once(once, [&] { hangs.set_value(); });
    recovered.wait();
  };
  const auto gpu = driver->gpus[0];
  engine_options options = on(driver);
  options.world.stop_patience = std::chrono::milliseconds(100);
  std::thread left;
  options.world.left_behind = [&](std::thread ends) { left = std::move(ends); };
  auto serving = engine::start(options, [](const bus::client_id&, const bus::reply&, bool) {});
  REQUIRE(serving);
  (*serving)->submit({"client"}, {.id = {std::uint64_t{1}}, .command = greedy(20)});
  hangs.get_future().wait();
  const auto began = std::chrono::steady_clock::now();
  CHECK_FALSE((*serving)->stop());
  serving->reset();
  CHECK(std::chrono::steady_clock::now() - began < limits::cards_end_timeout);
  REQUIRE(left.joinable());
  recovers.set_value();  // and what was left ends by itself
  left.join();           // before the process does, whose end frees what it uses
  CHECK(gpu->pinned == 0);
}

TEST_CASE("with `auto_yield` each card gives way by the free figure of its own GPU") {
  const auto driver = std::make_shared<fake_gpu_driver>(std::vector<std::uint32_t>{1000, 1000});
  engine_options options = on(driver);
  options.from.auto_yield = true;
  const auto local = started(options);
  driver->gpus[1]->memory.others_bytes = 292 * mib;  // of the 300 beside the reserve; the cache of half the model takes 12
  CHECK(comes_true([&] { return answer_of<bus::cards_report>(*local, bus::cards{}).cards[1].report.expert_cache_mib < 10; }));
  CHECK(answer_of<bus::cards_report>(*local, bus::cards{}).cards[0].resident);
}

#include "actors/card.hpp"
#include "config/limits.hpp"
#include "support/demo.hpp"
#include "support/failing_arena.hpp"
#include <functional>
#include <random>

namespace ebb::actors {
namespace {

resize_goal reserve_of(std::uint32_t mib) { return {.reserve_mib = mib, .extra_mib = 0, .extra_min_mib = 0, .ceiling_mib = {}}; }

using test::demo;

constexpr std::string_view prompt = "In the beginning God created the";
constexpr std::uint32_t n_tokens = 40;
constexpr std::uint32_t whole_mib = 24;  // a reserve of so much leaves no cache

void finish_resize(card& device) {
  while (!device.resize_step()) {
  }
  REQUIRE(device.end_resize());
}

void set_reserve(card& device, std::uint32_t reserve_mib) {
  REQUIRE(device.begin_resize(reserve_of(reserve_mib)));
  finish_resize(device);
}

std::unique_ptr<card> filled_card(card_options options = test::whole_card()) {
  auto device = test::make_card(options);
  REQUIRE(device->begin_fill());
  finish_resize(*device);
  return device;
}

window prompt_window(session_id session, std::uint32_t place, const std::vector<token_id>& ids) {
  window what{.number = 1, .tokens = ids};
  for (std::uint32_t position = 0; position < ids.size(); ++position) what.rows.push_back({place, position});
  what.sampled.push_back({static_cast<std::uint32_t>(ids.size() - 1), session});
  return what;
}

struct played_answer {
  std::vector<token_id> tokens;
  std::string logits_hash;
  std::uint64_t hits = 0, picks = 0;
};

// A whole answer in place 1, with `between` called after each window.
played_answer play(card& device, const std::function<void()>& between = [] {}) {
  static std::uint64_t sessions = 0;
  const session_id session{++sessions};
  const std::uint32_t place = 1;
  const auto order = test::greedy_order(prompt, n_tokens);
  REQUIRE(device.open({session, place, order}));
  window next = prompt_window(session, place, order->prompt);
  played_answer answer;
  while (answer.logits_hash.empty()) {
    const auto ran = device.run(next);
    REQUIRE(ran);
    REQUIRE(ran->picked.size() == 1);
    REQUIRE(ran->picked[0].session == session);
    for (const std::uint32_t of_row : ran->hits) answer.hits += of_row;
    answer.picks += ran->picks_per_row * next.rows.size();
    answer.tokens.push_back(ran->picked[0].token);
    answer.logits_hash = ran->picked[0].logits_hash;
    REQUIRE(answer.tokens.size() <= n_tokens);
    next = window{.number = next.number + 1, .rows = {{place, next.rows.back().position + 1}}, .tokens = {answer.tokens.back()}, .sampled = {{0, session}}};
    between();
  }
  device.close(session, place);
  return answer;
}

void check_expected(const played_answer& answer) {
  const test::greedy_answer& expected = test::expected_answer(prompt, n_tokens);
  CHECK(answer.tokens == expected.tokens);
  CHECK(answer.logits_hash == expected.logits_hash);
}

TEST_CASE("an answer has the same tokens and the same bits of every logit with no cache, with 30 percent and with all of it") {
  auto device = filled_card();
  CHECK(device->info().resident);
  check_expected(play(*device));
  set_reserve(*device, whole_mib - 7);
  const double share = static_cast<double>(device->info().report.expert_slots) / device->info().report.expert_slots_full;
  CHECK(share > 0.25);
  CHECK(share < 0.35);
  check_expected(play(*device));
  set_reserve(*device, whole_mib);
  CHECK(device->info().report.expert_slots == 0);
  check_expected(play(*device));
}

TEST_CASE("an answer is the same when the cache is resized at random between its windows, and windows run between the steps of a resize") {
  const auto seed = GENERATE(range(0u, 3u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  time_point now{std::chrono::hours(1)};
  auto device = test::make_card(test::whole_card(), [&now] { return now += std::chrono::milliseconds(4); });  // some 5 units a step
  REQUIRE(device->begin_fill());
  int resizes = 0, windows_while_resizing = 0;
  for (int answers = 0; answers < 2; ++answers) {
    check_expected(play(*device, [&] {
      if (!device->resizing()) REQUIRE(device->begin_resize(reserve_of(random() % (whole_mib + 2))));
      for (auto steps = random() % 12; steps > 0 && device->resizing(); --steps) {
        const bool done = device->resize_step();
        REQUIRE(device->memory().consistent());
        if (!done) continue;
        REQUIRE(device->end_resize());
        ++resizes;
      }
      windows_while_resizing += device->resizing();
    }));
  }
  CHECK(test::reads_the_model(device->memory()));
  CHECK(resizes > 3);
  CHECK(windows_while_resizing > 3);
}

TEST_CASE("an answer is the same while experts are exchanged for hotter ones, which makes more of its picks hits") {
  auto device = filled_card();
  set_reserve(*device, whole_mib);
  set_reserve(*device, whole_mib - 7);  // holds what was hot before the first use: the first layers
  const std::set<expert_id> before = test::residents_of(device->memory());
  const played_answer first = play(*device, [&] {
    device->adapt();
    REQUIRE(device->memory().consistent());
  });
  check_expected(first);
  CHECK(test::residents_of(device->memory()) != before);
  CHECK(test::residents_of(device->memory()).size() == before.size());
  for (int more = 0; more < 2; ++more) check_expected(play(*device, [&] { device->adapt(); }));
  const played_answer last = play(*device);
  check_expected(last);
  CHECK(last.hits > first.hits);
  CHECK(test::reads_the_model(device->memory()));
}

TEST_CASE("experts are exchanged only now and then, a few at a time, and never while a resize is under way") {
  auto device = filled_card();
  set_reserve(*device, whole_mib);
  set_reserve(*device, whole_mib - 7);
  play(*device);
  const auto changed = [&] {
    const std::uint64_t before = device->memory().version();
    device->adapt();
    return device->memory().version() != before;
  };
  for (std::uint32_t window = 1; window < limits::adapt_period_windows; ++window) CHECK_FALSE(changed());
  const std::set<expert_id> before = test::residents_of(device->memory());
  CHECK(changed());
  const std::set<expert_id> after = test::residents_of(device->memory());
  std::vector<expert_id> gone;
  std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(gone));
  CHECK(gone.size() <= limits::adapt_swaps_max);

  REQUIRE(device->begin_resize(reserve_of(whole_mib - 7)));
  for (std::uint32_t window = 0; window < 3 * limits::adapt_period_windows; ++window) CHECK_FALSE(changed());
  finish_resize(*device);
}

TEST_CASE("hits are the picks of each row whose expert was in a slot, layer by layer") {
  auto device = filled_card();
  set_reserve(*device, whole_mib - 7);
  const test::greedy_answer& expected = test::expected_answer(prompt, n_tokens);
  const auto order = test::greedy_order(prompt, n_tokens);
  REQUIRE(device->open({{1}, 0, order}));
  const auto ran = device->run(prompt_window({1}, 0, order->prompt));
  REQUIRE(ran);
  REQUIRE(ran->hits.size() == order->prompt.size());
  CHECK(ran->picks_per_row == 6 * 4);
  std::uint64_t hits = 0;
  for (std::size_t row = 0; row < ran->hits.size(); ++row) {
    std::uint32_t in_slot = 0;
    for (const expert_id expert : expected.picked[row]) in_slot += device->memory().cache().slot_of(expert).has_value();
    CHECK(ran->hits[row] == in_slot);
    hits += in_slot;
  }
  CHECK(hits > 0);
  CHECK(hits < ran->picks_per_row * ran->hits.size());
  CHECK(device->info().hits == hits);
  CHECK(device->info().misses == ran->picks_per_row * ran->hits.size() - hits);
}

TEST_CASE("a host card's misses are all the CPU's") {
  auto device = filled_card();
  set_reserve(*device, whole_mib - 7);
  play(*device);
  CHECK(device->info().misses > 0);
  CHECK(device->info().misses_cpu == device->info().misses);
  CHECK(device->info().misses_copied == 0);
}

TEST_CASE("a card counts how often its stage became resident or stopped being so, and says how many slots are still to fill") {
  auto device = test::make_card(test::whole_card());
  CHECK(device->info().flips == 0);
  REQUIRE(device->begin_fill());
  finish_resize(*device);
  CHECK(device->info().flips == 1);
  set_reserve(*device, 1);
  CHECK(device->info().flips == 2);
  set_reserve(*device, 9);
  CHECK(device->info().flips == 2);
  CHECK(device->info().slots_to_fill == 0);
  set_reserve(*device, 0);
  CHECK(device->info().flips == 3);
}

TEST_CASE("a map of the experts is what the cache holds and what was used") {
  auto device = filled_card();
  set_reserve(*device, whole_mib - 7);
  play(*device);
  const bus::expert_map map = device->experts();
  const expert_range& experts = device->memory().cache().experts();
  REQUIRE(map.resident.size() == 2 * ((experts.count() + 7) / 8));
  REQUIRE(map.heat.size() == 2 * experts.count());
  CHECK(map.heat_max > 0);
  for (std::uint32_t number = 0; number < experts.count(); ++number) {
    const int byte = std::stoi(map.resident.substr(2 * (number / 8), 2), nullptr, 16);
    CHECK(((byte >> (number % 8)) & 1) == device->memory().cache().slot_of(experts.at(number)).has_value());
    CHECK((map.heat.substr(2 * number, 2) == "00") == (device->memory().heat().heat(experts.at(number)) == 0));
  }
}

TEST_CASE("every pick of a resident stage is a hit, with the fast path and without") {
  auto device = filled_card();
  const played_answer slow = play(*device);
  CHECK(slow.hits == slow.picks);
  device->adopt_fast_path(device->residency().version);
  REQUIRE(device->fast_path());
  const played_answer fast = play(*device);
  CHECK(fast.hits == fast.picks);
  check_expected(fast);
  CHECK(device->info().misses == 0);
  CHECK(device->info().hits == slow.hits + fast.hits);

  set_reserve(*device, whole_mib);
  CHECK(play(*device).hits == 0);
}

TEST_CASE("a fast path is adopted for the version of now only, and only while every expert is resident") {
  auto device = filled_card();
  const residency_change now = device->residency();
  CHECK(now.card == card_id{0});
  CHECK(now.resident_count == 6 * 32);
  CHECK(now.expert_count == 6 * 32);
  CHECK_FALSE(device->fast_path());
  device->adopt_fast_path(now.version - 1);
  CHECK_FALSE(device->fast_path());
  device->adopt_fast_path(now.version + 1);
  CHECK_FALSE(device->fast_path());
  device->adopt_fast_path(now.version);
  CHECK(device->fast_path());
  CHECK(device->info().fast_path);

  set_reserve(*device, 1);
  CHECK_FALSE(device->residency().resident_count == device->residency().expert_count);
  device->adopt_fast_path(device->residency().version);
  CHECK_FALSE(device->fast_path());
}

TEST_CASE("a shrink drops the fast path when it begins, before any expert leaves") {
  auto device = filled_card();
  device->adopt_fast_path(device->residency().version);
  REQUIRE(device->begin_resize(reserve_of(3)));
  CHECK_FALSE(device->fast_path());
  CHECK(device->residency().resident_count == device->residency().expert_count);
  finish_resize(*device);
  set_reserve(*device, 0);
  CHECK(device->info().resident);
  CHECK_FALSE(device->fast_path());  // until it is told so for the new version
  device->adopt_fast_path(device->residency().version);
  CHECK(device->fast_path());
}

TEST_CASE("a resize that shrinks nothing keeps the fast path") {
  auto device = filled_card();
  device->adopt_fast_path(device->residency().version);
  set_reserve(*device, 0);
  CHECK(device->fast_path());
}

TEST_CASE("a card that is not elastic fills its cache, and refuses to be resized by the name of the setting") {
  card_options options = test::whole_card();
  options.elastic = false;
  auto device = filled_card(options);
  CHECK(device->info().resident);
  const auto refused = device->begin_resize(reserve_of(5));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::refused);
  CHECK_THAT(refused.error().text, Catch::Contains("card 0") && Catch::Contains("`vram_elastic`"));
  CHECK_FALSE(device->resizing());
  CHECK(device->info().resident);
}

TEST_CASE("a card that is being resized says that it is busy, and goes on with the first") {
  auto device = filled_card();
  REQUIRE(device->begin_resize(reserve_of(5)));
  const auto second = device->begin_resize(reserve_of(9));
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::busy);
  CHECK_THAT(second.error().text, Catch::Contains("card 0"));
  while (!device->resize_step()) {
  }
  const auto outcome = device->end_resize();
  REQUIRE(outcome);
  CHECK(outcome->report.reserve_mib == 5);
}

TEST_CASE("a resize says whether more would fit by its end, since somebody may let go while it goes on") {
  test::shared_device shared{.size_bytes = 40u << 20, .others_bytes = 30u << 20, .refuses = {}};
  card_options options = test::whole_card();
  options.make_arena = [&](const kernels::segment_layout& layout, std::uint64_t) { return std::make_unique<test::failing_arena>(layout, &shared); };
  auto device = filled_card(options);
  REQUIRE(device->begin_resize(reserve_of(2)));
  shared.others_bytes = 10u << 20;
  while (!device->resize_step()) {
  }
  CHECK(device->end_resize()->could_grow);
  REQUIRE(device->begin_resize(reserve_of(2)));
  while (!device->resize_step()) {
  }
  CHECK_FALSE(device->end_resize()->could_grow);
}

TEST_CASE("no window asks the device what is free, with the cache whole or half of it out") {
  test::shared_device shared{.size_bytes = 40u << 20, .others_bytes = 0, .refuses = {}};
  card_options options = test::whole_card();
  options.make_arena = [&](const kernels::segment_layout& layout, std::uint64_t) { return std::make_unique<test::failing_arena>(layout, &shared); };
  auto device = filled_card(options);
  int readings = 0;
  shared.refuses = [&](test::operation kind) {
    readings += kind == test::operation::read_free;
    return false;
  };
  check_expected(play(*device));
  CHECK(readings == 0);
  set_reserve(*device, 30);
  CHECK(std::exchange(readings, 0) > 0);
  check_expected(play(*device, [&] { device->adapt(); }));
  CHECK(readings == 0);
}

TEST_CASE("a report says what is free and what is missing") {
  auto device = filled_card();
  const auto report_at = [&](std::uint32_t reserve_mib) {
    set_reserve(*device, reserve_mib);
    return device->info().report;
  };
  const bus::card_report full = report_at(0);
  CHECK(full.device == 0);
  CHECK(full.expert_slots == full.expert_slots_full);
  CHECK(full.expert_cache_mib == full.expert_cache_full_mib);
  CHECK(full.short_mib == 0);

  const bus::card_report half = report_at(12);
  CHECK(half.reserve_mib == 12);
  CHECK(half.vram_free_mib >= 12);
  CHECK(half.vram_free_mib < 12.25);  // a segment of 256 KiB more would have fitted
  CHECK(half.vram_free_mib + half.expert_cache_mib == Approx(full.expert_cache_full_mib));
  CHECK(half.expert_slots < full.expert_slots);
  CHECK(half.expert_slots_full == full.expert_slots_full);
  CHECK(half.short_mib == 0);
  CHECK(half.prompt_chunk == limits::prompt_chunk_rows);

  const bus::card_report beyond = report_at(100);
  CHECK(beyond.expert_slots == 0);
  CHECK(beyond.expert_cache_mib == 0);
  CHECK(beyond.short_mib == Approx(100 - beyond.vram_free_mib));
  CHECK(report_at(0).expert_slots == full.expert_slots);
}

TEST_CASE("a card that is smaller than its experts has the slots that fit above its reserve") {
  card_options options = test::whole_card();
  options.card_bytes = 10 << 20;
  options.reserve_mib = 2;
  auto device = filled_card(options);
  const bus::card_report said = device->info().report;
  CHECK(said.expert_slots_full == device->memory().slots().slots_in(8 << 20));
  CHECK(said.expert_slots == said.expert_slots_full);
  CHECK(said.vram_free_mib >= 2);
  CHECK_FALSE(device->info().resident);
  check_expected(play(*device));
}

TEST_CASE("a cache grows no further than leaves its minimum free, and what is mapped already may stay below that") {
  card_options options = test::whole_card();
  options.card_bytes = 20 << 20;
  options.min_free_mib = 4;
  auto device = filled_card(options);
  CHECK(device->info().report.vram_free_mib >= 4);
  CHECK(device->info().report.vram_free_mib < 4.25);
  CHECK(device->info().report.short_mib == 0);
  set_reserve(*device, 10);
  CHECK(device->info().report.vram_free_mib < 10.25);
  set_reserve(*device, 2);
  CHECK(device->info().report.vram_free_mib >= 4);
  CHECK(device->info().report.vram_free_mib < 4.25);
  CHECK(device->info().report.short_mib == 0);

  options.card_bytes = 0;  // as much as is needed: all of the cache, and the minimum beside it
  CHECK(filled_card(options)->info().resident);
}

TEST_CASE("a card that starts with the heats of an earlier run fills a small cache with what was hot then") {
  card_options options = test::whole_card();
  options.card_bytes = 8 << 20;
  auto cold = filled_card(options);
  const played_answer first = play(*cold);
  const stage_heat learnt = cold->heat();
  options.heat_before = std::make_shared<const std::vector<float>>(learnt.heat);
  auto warm = filled_card(options);
  CHECK(test::residents_of(warm->memory()) != test::residents_of(cold->memory()));
  CHECK(warm->heat().heat == learnt.heat);
  const played_answer again = play(*warm);
  check_expected(again);
  CHECK(static_cast<double>(again.hits) > static_cast<double>(first.hits) + 0.15 * static_cast<double>(first.picks));
}

TEST_CASE("a card whose reserve is larger than itself works without a cache") {
  card_options options = test::whole_card();
  options.card_bytes = 1 << 20;
  options.reserve_mib = 2;
  auto device = filled_card(options);
  CHECK(device->info().report.expert_slots == 0);
  CHECK(device->info().report.short_mib == 1);
  check_expected(play(*device));
}

TEST_CASE("a card that cannot be made says which and why") {
  card_options options = test::whole_card();
  options.card = {3};
  options.segment_bytes = 1000;
  const auto made = card::make(demo().weights, demo().vocabulary, options, test::fastest_ops(), test::one_thread(), steady_clock());
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::bad_value);
  CHECK_THAT(made.error().text, Catch::Contains("card 3") && Catch::Contains("1000"));
}

TEST_CASE("a window with a sampled row of a session that is not open is refused") {
  auto device = filled_card();
  const auto ran = device->run(prompt_window({77}, 0, {1, 2, 3}));
  REQUIRE_FALSE(ran);
  CHECK(ran.error().code == errc::unknown_session);
  CHECK_THAT(ran.error().text, Catch::Contains("77"));
}

TEST_CASE("an order that no answer can be made of is refused when the session opens") {
  auto device = filled_card();
  auto order = std::make_shared<session_order>(*test::greedy_order(prompt, 1));
  order->params.max_tokens = 0;
  const auto opened = device->open({{1}, 0, order});
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::bad_value);
}

TEST_CASE("cancel gives the text that was held back and the hash of the logits so far") {
  auto device = filled_card();
  const test::greedy_answer& expected = test::expected_answer(prompt, 1);
  const std::string first_text(demo().vocabulary->bytes_of(expected.tokens[0]));
  REQUIRE(!first_text.empty());
  auto order = std::make_shared<session_order>(*test::greedy_order(prompt, n_tokens));
  order->params.stops = {first_text + " and what never comes"};
  REQUIRE(device->open({{1}, 0, order}));
  const auto ran = device->run(prompt_window({1}, 0, order->prompt));
  REQUIRE(ran);
  CHECK(ran->picked[0].text.empty());

  const auto last = device->cancel({1});
  REQUIRE(last);
  CHECK(last->session == session_id{1});
  CHECK(last->finish == model::finish::cancelled);
  CHECK(last->text == first_text);
  CHECK(last->logits_hash == expected.logits_hash);
  device->close({1}, 0);
  CHECK_FALSE(device->cancel({1}));
}

TEST_CASE("two cards with half of the layers each give the answer of one, and only the last picks tokens") {
  card_options lower = test::whole_card();
  lower.layer_end = 2;
  card_options upper = test::whole_card();
  upper.card = {1};
  upper.layer_begin = 2;
  auto first = filled_card(lower);
  auto second = filled_card(upper);
  CHECK(first->first_stage());
  CHECK_FALSE(first->last_stage());
  CHECK_FALSE(second->first_stage());
  CHECK(second->last_stage());
  const auto order = test::greedy_order(prompt, n_tokens);
  for (card* each : {first.get(), second.get()}) REQUIRE(each->open({{1}, 0, order}));
  CHECK_FALSE(first->cancel({1}));

  const auto half_way = first->run(prompt_window({1}, 0, order->prompt));
  REQUIRE(half_way);
  CHECK(half_way->picked.empty());
  CHECK(half_way->picks_per_row == 2 * 4);
  REQUIRE(half_way->x);
  window rest = prompt_window({1}, 0, order->prompt);
  rest.x = half_way->x;
  const auto ran = second->run(rest);
  REQUIRE(ran);
  CHECK_FALSE(ran->x);
  CHECK(ran->picks_per_row == 4 * 4);
  REQUIRE(ran->picked.size() == 1);
  CHECK(ran->picked[0].token == test::expected_answer(prompt, n_tokens).tokens[0]);
  CHECK(second->cancel({1})->logits_hash == test::expected_answer(prompt, 1).logits_hash);
}

}  // namespace
}  // namespace ebb::actors

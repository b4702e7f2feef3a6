// The engine in this process, through the messages of the bus.
#include "kernels/memory/system_memory.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include "tests/tools/support/demo.hpp"
#include "tools/atomic_file.hpp"
#include <fstream>
#include <map>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

namespace {

std::unique_ptr<local_connection> started(const engine_options& options) {
  auto local = local_connection::start(options);
  if (!local) throw std::runtime_error(local.error().text);
  return std::move(*local);
}

void check_start_fails(const engine_options& options, errc code, const std::string& names) {
  const auto local = local_connection::start(options);
  REQUIRE_FALSE(local);
  CHECK(local.error().code == code);
  CHECK_THAT(local.error().text, Catch::Contains(names));
}

}  // namespace

TEST_CASE("a conversation of 200 tokens has the same text and hash on one, two and three cards") {
  std::map<std::size_t, bus::done> answers;
  for (std::size_t n_cards = 1; n_cards <= 3; ++n_cards) {
    const auto local = started(demo_on(n_cards));
    auto asked = greedy(200);
    asked.stream = false;
    answers[n_cards] = answer_of<bus::done>(*local, asked);
    CHECK(local->engine().cards().size() == n_cards);
  }
  CHECK(answers[1].generated_tokens == 200);
  CHECK(answers[1].finish == "length");
  CHECK(answers[1].hash.size() == 32);
  for (const std::size_t n_cards : {2, 3}) {
    CHECK(answers[n_cards].hash == answers[1].hash);
    CHECK(answers[n_cards].text == answers[1].text);
    CHECK(answers[n_cards].generated_tokens == 200);
  }
}

TEST_CASE("an answer that is streamed has the text of one that is not, token by token and numbered from 0") {
  const auto local = started(demo_on(2));
  auto asked = greedy(50);
  asked.stream = false;
  const auto whole = answer_of<bus::done>(*local, asked);
  asked.stream = true;
  const bus::request_id id = fresh_id();
  REQUIRE(local->send({id, false, asked}));
  std::string text;
  std::uint64_t n_tokens = 0;
  for (;;) {
    const auto reply = local->receive(patience);
    REQUIRE(reply);
    REQUIRE(reply->id == id);
    if (reply->last()) {
      const auto& last = std::get<bus::done>(reply->body);
      CHECK(last.text.empty());
      CHECK(last.hash == whole.hash);
      break;
    }
    const auto& token = std::get<bus::token>(reply->body);
    CHECK(token.index == n_tokens);
    text += token.text;
    ++n_tokens;
  }
  CHECK(n_tokens == 50);
  CHECK(text == whole.text);
}

TEST_CASE("each card says which layers it has, and that every expert of them is in a slot") {
  const auto local = started(demo_on(3));
  const auto cards = answer_of<bus::cards_report>(*local, bus::cards{}).cards;
  REQUIRE(cards.size() == 3);
  for (std::uint32_t index = 0; index < 3; ++index) {
    CHECK(cards[index].report.device == index);
    CHECK(cards[index].kind == "host");
    CHECK(cards[index].layer_begin == 2 * index);
    CHECK(cards[index].layer_end == 2 * index + 2);
    CHECK(cards[index].resident);
    CHECK(cards[index].report.expert_slots == cards[index].report.expert_slots_full);
    CHECK(cards[index].report.expert_slots_full == 64);
    CHECK(cards[index].report.expert_cache_mib == cards[index].report.expert_cache_full_mib);
  }
}

TEST_CASE("status names the model and counts what was done") {
  const auto local = started(demo_on(1));
  const auto before = answer_of<bus::status_report>(*local, bus::status{});
  CHECK(before.state == "ready");
  CHECK(before.model == EBB_DEMO_MODEL);
  CHECK(before.architecture == "qwen3moe");
  CHECK(before.layers == 6);
  CHECK(before.experts == 32);
  CHECK(before.context == 2048);
  CHECK(before.sessions_max == 4);
  CHECK(before.tokens_generated == 0);
  CHECK(before.rss_mib > before.rss_anon_mib);
  CHECK(before.rss_anon_mib > 23);  // the cache alone
  answer_of<bus::done>(*local, greedy(7));
  const auto after = answer_of<bus::status_report>(*local, bus::status{});
  CHECK(after.tokens_generated == 7);
  CHECK(after.windows == 7);  // one for the prompt and its token, six more
  CHECK(after.sessions == 0);
}

TEST_CASE("the setting `context` bounds a session: answers end there, and longer prompts are refused") {
  engine_options options = demo_on(1);
  options.from.context = 40;
  const auto local = started(options);
  CHECK(local->engine().context() == 40);
  const auto answer = answer_of<bus::done>(*local, greedy(1000));
  CHECK(answer.finish == "length");
  CHECK(answer.prompt_tokens + answer.generated_tokens == 40);
  auto asked = greedy(1);
  asked.prompt.clear();
  asked.ids.assign(40, 77);
  CHECK(code_of(*local, asked) == errc::too_large);
  asked.ids.pop_back();
  CHECK(code_of(*local, asked) == errc::none);
}

TEST_CASE("a request that says nothing of its length has that of the settings") {
  engine_options options = demo_on(1);
  options.from.sampling.max_tokens = 5;
  const auto local = started(options);
  auto asked = greedy(1);
  asked.max_tokens.reset();
  CHECK(answer_of<bus::done>(*local, asked).generated_tokens == 5);
}

TEST_CASE("with the profile of an earlier run a small cache holds the hot experts from the first token on") {
  const bus::test::temporary_folder folder;
  engine_options options = demo_on(1);
  options.from.host_card_mib = 8;  // a third of the experts
  options.from.profile = (folder / "heat").string();
  double first = 0;
  {
    const auto local = started(options);
    first = answer_of<bus::done>(*local, greedy(30)).hit_rate;
    answer_of<bus::done>(*local, greedy(200));
  }
  CHECK(std::filesystem::exists(folder / "heat"));
  const double with_profile = answer_of<bus::done>(*started(options), greedy(30)).hit_rate;
  options.from.profile = "off";
  const double without = answer_of<bus::done>(*started(options), greedy(30)).hit_rate;
  CAPTURE(first, with_profile, without);
  CHECK(without == first);
  CHECK(with_profile > without + 0.15);
}

TEST_CASE("a profile that is damaged or of another model is ignored by name, and only the damaged one is replaced") {
  const bus::test::temporary_folder folder;
  engine_options options = demo_on(2);
  const std::filesystem::path file = folder / "heat";
  options.from.profile = file.string();
  std::vector<error> warnings;
  options.warn = [&](const error& what) { warnings.push_back(what); };
  started(options);
  CHECK(warnings.empty());
  const auto size = std::filesystem::file_size(file);

  std::filesystem::resize_file(file, size / 2);
  started(options);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].code == errc::corrupt);
  CHECK_THAT(warnings[0].text, Catch::Contains(file.string()) && Catch::Contains("ignored"));
  CHECK(std::filesystem::file_size(file) == size);

  const bus::expert_profile other{"other.gguf", 5, 6, 32, std::vector<float>(6 * 32, 1)};
  REQUIRE(replace_file(file, bus::encode_profile(other)));
  started(options);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[1].code == errc::refused);
  CHECK_THAT(warnings[1].text, Catch::Contains(file.string()) && Catch::Contains("other.gguf") && Catch::Contains("chapbook-q4_k_m.gguf"));
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK(bus::decode_profile(bus::as_bytes(text)) == other);
}

TEST_CASE("a profile that cannot be written is warned of, and the engine ends well") {
  engine_options options = demo_on(1);
  options.from.profile = "/proc/no_such_folder/heat";
  std::vector<error> warnings;
  options.warn = [&](const error& what) { warnings.push_back(what); };
  started(options);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].code == errc::file_unwritable);
  CHECK_THAT(warnings[0].text, Catch::Contains("/proc/no_such_folder/heat") && Catch::Contains("`profile`"));
}

TEST_CASE("with `auto_yield` a cache gives way on its own while less than `min_free_vram_mib` is free, and the answer is the same") {
  engine_options options = demo_on(2);
  const auto undisturbed = answer_of<bus::done>(*started(options), greedy(100));
  const auto available = kernels::available_memory_bytes();
  REQUIRE(available);
  options.from.min_free_vram_mib = static_cast<std::uint32_t>(*available >> 20) + 4096;  // more than the system can have free
  CHECK(answer_of<bus::cards_report>(*started(options), bus::cards{}).cards[0].report.expert_slots == 0);  // growth leaves it free too

  options.from.min_free_vram_mib = 0;
  options.from.auto_yield = true;
  const auto local = started(options);
  CHECK(answer_of<bus::done>(*local, greedy(100)).hash == undisturbed.hash);
  CHECK(answer_of<bus::cards_report>(*local, bus::cards{}).cards[0].resident);  // the reserve of a host card is 0: nothing is missing

  options.from.vram_elastic = false;
  check_start_fails(options, errc::bad_value, "setting `auto_yield`");
}

TEST_CASE("with `vram_elastic` off a vram command is refused and the cache keeps its size") {
  engine_options options = demo_on(1);
  options.from.vram_elastic = false;
  const auto local = started(options);
  CHECK(code_of(*local, bus::vram{5, 0}) == errc::refused);
  const auto card = answer_of<bus::cards_report>(*local, bus::cards{}).cards.front();
  CHECK(card.report.reserve_mib == 0);
  CHECK(card.report.expert_slots == card.report.expert_slots_full);
}

TEST_CASE("progress ends at all of the weights") {
  engine_options options = demo_on(1);
  std::vector<double> shares;
  options.progress = [&](double share) { shares.push_back(share); };
  started(options);
  REQUIRE_FALSE(shares.empty());
  CHECK(std::is_sorted(shares.begin(), shares.end()));
  CHECK(shares.front() >= 0);
  CHECK(shares.back() == 1);
}

TEST_CASE("an engine that ends answers what is open with cancelled, once") {
  std::atomic<int> n_cancelled{0};
  std::atomic<int> n_tokens{0};
  auto engine = engine::start(demo_on(2), [&](const bus::client_id&, const bus::reply& reply, bool) {
    if (const auto* why = std::get_if<error>(&reply.body)) n_cancelled += why->code == errc::cancelled ? 1 : 0;
    if (std::holds_alternative<bus::token>(reply.body)) ++n_tokens;
  });
  REQUIRE(engine);
  for (std::uint64_t number = 0; number < 6; ++number) {  // four run, two wait
    (*engine)->submit({"someone"}, {{number}, false, greedy(2000)});
  }
  CHECK(comes_true([&] { return n_tokens > 8; }));
  (*engine)->stop();
  CHECK(n_cancelled == 6);
  const int n_tokens_at_stop = n_tokens;
  (*engine)->submit({"someone"}, {{std::uint64_t{9}}, false, greedy(5)});
  engine->reset();
  CHECK(n_cancelled == 6);
  CHECK(n_tokens == n_tokens_at_stop);
}

TEST_CASE("an engine does not start without a model that can be read") {
  engine_options options = demo_on(1);
  options.from.model.clear();
  check_start_fails(options, errc::missing_key, "name a GGUF file");
  options.from.model = std::string(EBB_TEST_DATA) + "/no_such_file.gguf";
  check_start_fails(options, errc::file_unreadable, "no_such_file.gguf");
  options.from.model = std::string(EBB_TEST_DATA) + "/held_out.txt";
  check_start_fails(options, errc::not_gguf, "held_out.txt");
}

TEST_CASE("an engine does not start with settings that do not fit the model or this build, and names them") {
  engine_options options = demo_on(1);
  options.from.context = 2049;
  check_start_fails(options, errc::bad_value, "`context`: 2049 is more than the 2048");

  check_start_fails(demo_on(7), errc::bad_value, "7 cards for a model of 6 layers");

  options = demo_on(2);
  options.from.layers = {0, 6};
  check_start_fails(options, errc::bad_value, "setting `layers`");

  options = demo_on(2);
  options.from.vram_reserve_mib = {1, 2, 3};
  check_start_fails(options, errc::bad_value, "setting `vram_reserve_mib`: 3 numbers for 2 card(s)");

  options = demo_on(1);
  options.from.vram_segment_bytes = 1000;  // no whole number of pages; noticed by the card itself
  check_start_fails(options, errc::bad_value, "card 0");
}

TEST_CASE("an instruction set that does not exist is refused with those that do") {
  engine_options options = demo_on(1);
  options.forced_isa = "sse9";
  check_start_fails(options, errc::bad_value, "EBB_ISA is \"sse9\"; it must be scalar, avx2 or avx512");
  options.forced_isa = "scalar";
  CHECK(started(options)->engine().isa() == kernels::cpu::isa::scalar);
}

TEST_CASE("a start that is told to stop while it reads the weights ends at once, and says so") {
  std::stop_source stop;
  auto options = demo_on(2);
  double share = 0;
  options.stop = stop.get_token();
  options.progress = [&](double done) {
    share = done;
    stop.request_stop();
  };
  check_start_fails(options, errc::cancelled, "told to stop");
  CHECK(share < 1);
}

#include "actors/order_maker.hpp"
#include "config/limits.hpp"
#include "support/demo.hpp"

namespace ebb::actors {
namespace {

using test::demo;

constexpr std::uint32_t context = 64;

order_maker maker(const sampling_settings& defaults = {}) {
  return {demo().vocabulary, chat_prompt(ebb::model::chat_template::plain(), demo().vocabulary), defaults, context};
}

bus::generate asking(std::string prompt) {
  bus::generate asked;
  asked.prompt = std::move(prompt);
  return asked;
}

void check_refused(const bus::generate& asked, errc code, const std::string& named) {
  const auto order = maker().make(asked);
  REQUIRE_FALSE(order);
  INFO(order.error().text);
  CHECK(to_string(order.error().code) == to_string(code));
  CHECK_THAT(order.error().text, Catch::Contains(named));
}

TEST_CASE("a prompt is encoded, and ids are taken as they are") {
  const auto from_text = maker().make(asking("In the beginning"));
  REQUIRE(from_text);
  CHECK((*from_text)->prompt == demo().vocabulary->encode_prompt("In the beginning"));
  bus::generate by_ids;
  by_ids.ids = {5, 4, 3};
  const auto from_ids = maker().make(by_ids);
  REQUIRE(from_ids);
  CHECK((*from_ids)->prompt == std::vector<token_id>{5, 4, 3});
}

TEST_CASE("a conversation becomes the prompt that its template writes") {
  bus::generate chat;
  chat.messages = {{"user", "In the beginning", ""}};
  const auto order = maker().make(chat);
  REQUIRE(order);
  CHECK((*order)->prompt == demo().vocabulary->encode_prompt("user: In the beginning\n\nassistant:"));
}

TEST_CASE("a conversation that cannot be written or does not fit is refused by its field") {
  bus::generate chat;
  chat.messages = {{"", "a", ""}};
  check_refused(chat, errc::bad_value, "`messages`: message 0 has no role");
  chat.messages = {{"user", std::string(1000, '?'), ""}};
  check_refused(chat, errc::too_large, "tokens, and the context holds 64");
  chat.messages = {{"user", std::string(100'000, 'a'), ""}};
  std::size_t longest = 0;
  for (token_id id = 0; id < static_cast<token_id>(demo().vocabulary->n_vocab()); ++id) longest = std::max(longest, demo().vocabulary->bytes_of(id, true).size());
  check_refused(chat, errc::too_large, "the conversation, as the model's template writes it, has at least " + std::to_string((100'018 + longest - 1) / longest) + " tokens, and the context holds 64");
}

TEST_CASE("two prompts at once are refused, whichever they are") {
  bus::generate both = asking("a");
  both.ids = {1};
  check_refused(both, errc::bad_value, "`prompt`, `ids` and `messages`");
  both = asking("a");
  both.messages = {{"user", "a", ""}};
  check_refused(both, errc::bad_value, "`prompt`, `ids` and `messages`");
}

TEST_CASE("log probabilities are passed on up to the most that are shown") {
  bus::generate asked = asking("a");
  CHECK_FALSE((*maker().make(asked))->params.logprobs);
  asked.logprobs = limits::logprobs_max;
  CHECK((*maker().make(asked))->params.logprobs == limits::logprobs_max);
  asked.logprobs = limits::logprobs_max + 1;
  check_refused(asked, errc::bad_value, "`logprobs` is 21");
  asked.logprobs = 1;
  asked.stream = false;
  check_refused(asked, errc::bad_value, "`logprobs`: they come with the tokens");
}

TEST_CASE("what a client leaves open is the default, and what it says is not") {
  const sampling_settings defaults{.temperature = 0.5F, .top_k = 7, .top_p = 0.75F, .min_p = 0.125F, .repeat_penalty = 1.25F, .repeat_last_n = 9, .seed = 11};
  const auto open = maker(defaults).make(asking("a"));
  REQUIRE(open);
  CHECK((*open)->params.sampling == model::sampling_params{0.5F, 7, 0.75F, 0.125F, 1.25F, 9, 11});

  bus::generate said = asking("a");
  said.temperature = 1.0F;
  said.top_k = 0;
  said.top_p = 1.0F;
  said.min_p = 0.0F;
  said.repeat_penalty = 1.0F;
  said.repeat_last_n = 0;
  said.seed = 0;
  const auto own = maker(defaults).make(said);
  REQUIRE(own);
  CHECK((*own)->params.sampling == model::sampling_params{1.0F, 0, 1.0F, 0.0F, 1.0F, 0, 0});
}

TEST_CASE("stop strings, the hash and the end of text are passed on") {
  bus::generate asked = asking("a");
  asked.stop = {"\n\n", "END"};
  asked.hash = true;
  asked.ignore_eos = true;
  const auto order = maker().make(asked);
  REQUIRE(order);
  CHECK((*order)->params.stops == asked.stop);
  CHECK((*order)->params.hash_logits);
  CHECK((*order)->params.ignore_eos);
  const auto plain = maker().make(asking("a"));
  REQUIRE(plain);
  CHECK_FALSE((*plain)->params.hash_logits);
  CHECK_FALSE((*plain)->params.ignore_eos);
}

TEST_CASE("an answer is cut to what the context leaves behind the prompt") {
  bus::generate asked;
  asked.ids.assign(60, 1);
  asked.max_tokens = 4;
  CHECK((*maker().make(asked))->params.max_tokens == 4);
  asked.max_tokens = 5;
  CHECK((*maker().make(asked))->params.max_tokens == 4);
  asked.ids.assign(context - 1, 1);
  CHECK((*maker().make(asked))->params.max_tokens == 1);
}

TEST_CASE("a prompt that leaves no room for an answer is too large, with both numbers") {
  bus::generate asked;
  asked.ids.assign(context, 1);
  check_refused(asked, errc::too_large, "64");
  asked.ids.assign(1000, 1);
  check_refused(asked, errc::too_large, "1000");
}

TEST_CASE("nothing to go on from is refused") { check_refused(asking(""), errc::bad_value, "`prompt`"); }

TEST_CASE("an id outside the vocabulary is refused by its number, on both sides") {
  bus::generate asked;
  const auto n_vocab = static_cast<token_id>(demo().vocabulary->n_vocab());
  asked.ids = {0, n_vocab - 1};
  CHECK(maker().make(asked));
  asked.ids = {0, n_vocab};
  check_refused(asked, errc::bad_value, std::to_string(n_vocab) + " is outside");
  asked.ids = {-1};
  check_refused(asked, errc::bad_value, "-1 is outside");
}

TEST_CASE("a sampling field out of its range is refused by its name") {
  const auto with = [](auto set) {
    bus::generate asked = asking("a");
    set(asked);
    return asked;
  };
  check_refused(with([](auto& asked) { asked.temperature = -0.5F; }), errc::bad_value, "temperature");
  check_refused(with([](auto& asked) { asked.top_p = 1.5F; }), errc::bad_value, "top_p");
  check_refused(with([](auto& asked) { asked.min_p = -1.0F; }), errc::bad_value, "min_p");
  check_refused(with([](auto& asked) { asked.repeat_penalty = 0.0F; }), errc::bad_value, "repeat_penalty");
}

TEST_CASE("what a card would refuse is refused here: no tokens wanted, and stop strings that cannot be matched") {
  bus::generate asked = asking("a");
  asked.max_tokens = 0;
  check_refused(asked, errc::bad_value, "max_tokens");
  asked = asking("a");
  asked.stop = {""};
  check_refused(asked, errc::bad_value, "stop");
  asked.stop = {"\xff"};
  check_refused(asked, errc::bad_value, "stop");
  asked.stop.assign(limits::stop_strings_max + 1, "x");
  check_refused(asked, errc::bad_value, "stop");
  asked.stop = {std::string(limits::stop_bytes_max + 1, 'x')};
  check_refused(asked, errc::bad_value, "stop");
}

}  // namespace
}  // namespace ebb::actors

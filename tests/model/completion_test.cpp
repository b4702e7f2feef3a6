#include "model/completion.hpp"
#include "tests/model/support/tiny_vocabulary.hpp"
#include <catch2/catch.hpp>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <xxhash.h>

namespace ebb::model {
namespace {

using ids = std::vector<token_id>;

std::shared_ptr<const tokenizer> vocabulary() {
  static const auto shared = std::make_shared<const tokenizer>(*tokenizer::make(test::tiny_spec()));
  return shared;
}

completion begin(const completion_params& params = {}, ids prompt = {'a'}) {
  auto made = completion::make(vocabulary(), std::move(prompt), params);
  REQUIRE(made.has_value());
  return std::move(*made);
}

error error_of(const completion_params& params, ids prompt = {}) {
  const auto made = completion::make(vocabulary(), std::move(prompt), params);
  REQUIRE_FALSE(made.has_value());
  return made.error();
}

// Logits by which a greedy sampler picks `token`.
std::vector<float> row_for(token_id token, std::size_t n_logits = test::tiny::n_vocab) {
  std::vector<float> row(n_logits, -1);
  row[token] = 1;
  return row;
}

step accept(completion& answer, token_id token) { return answer.accept(row_for(token)); }

// All text of the steps, and the last one's reason.
struct outcome {
  std::string text;
  finish reason;
};
outcome feed(completion& answer, const ids& tokens) {
  outcome all{{}, finish::none};
  for (const token_id token : tokens) {
    const step one = accept(answer, token);
    all.text += one.text;
    all.reason = one.reason;
  }
  return all;
}

}  // namespace

TEST_CASE("a step has the token that the sampler picked and its text") {
  completion answer = begin();
  const step first = accept(answer, test::tiny::hello);
  CHECK(first.token == test::tiny::hello);
  CHECK(first.text == "hello");
  CHECK(first.reason == finish::none);
  CHECK(accept(answer, test::tiny::space_w).text == " w");
}

TEST_CASE("a token that ends text ends the answer and shows nothing") {
  for (const token_id ending : {test::tiny::end, test::tiny::end_turn}) {
    completion answer = begin();
    CHECK(feed(answer, {test::tiny::hello}).text == "hello");
    const step last = accept(answer, ending);
    CHECK(last.token == ending);
    CHECK(last.text.empty());
    CHECK(last.reason == finish::stop);
    CHECK(answer.reason() == finish::stop);
  }
}

TEST_CASE("with ignore_eos such a token shows nothing and the answer goes on to its length") {
  completion_params params;
  params.ignore_eos = true;
  params.max_tokens = 3;
  completion answer = begin(params);
  const outcome all = feed(answer, {'x', test::tiny::end, 'y'});
  CHECK(all.text == "xy");
  CHECK(all.reason == finish::length);
}

TEST_CASE("the answer ends at max_tokens, and a stop at that very token counts as stop") {
  completion_params params;
  params.max_tokens = 2;
  completion cut = begin(params);
  CHECK(feed(cut, {'x', 'y'}).reason == finish::length);
  completion ended = begin(params);
  CHECK(feed(ended, {'x', test::tiny::end}).reason == finish::stop);
}

TEST_CASE("a character in the making is shown when it is whole") {
  completion answer = begin();
  CHECK(accept(answer, 0xC3).text.empty());
  CHECK(accept(answer, 0xA9).text == "\u00E9");
}

TEST_CASE("a character cut off by the end of the answer becomes a replacement character") {
  completion_params params;
  params.max_tokens = 2;
  completion by_length = begin(params);
  CHECK(feed(by_length, {'x', 0xC3}).text == "x\uFFFD");
  completion by_token = begin();
  CHECK(feed(by_token, {'x', 0xC3, test::tiny::end}).text == "x\uFFFD");
}

TEST_CASE("a stop string ends the answer, and neither it nor what follows in its token is shown") {
  completion_params params;
  params.stops = {"el"};
  completion answer = begin(params);
  const outcome all = feed(answer, {'x', test::tiny::hello});
  CHECK(all.text == "xh");
  CHECK(all.reason == finish::stop);
}

TEST_CASE("text held back for a stop string comes with the last step when the answer ends otherwise") {
  completion_params params;
  params.stops = {"hello!"};
  params.max_tokens = 3;
  for (const token_id last : {token_id{'.'}, test::tiny::end}) {
    completion answer = begin(params);
    CHECK(feed(answer, {'x'}).text == "x");
    CHECK(feed(answer, {test::tiny::hello}).text.empty());
    CHECK(accept(answer, last).text == (last == '.' ? "hello." : "hello"));
  }
  params.max_tokens = 1;
  completion cut = begin(params);
  CHECK(accept(cut, test::tiny::hello).text == "hello");
}

TEST_CASE("control tokens show nothing, user-defined ones their text") {
  completion answer = begin();
  CHECK(feed(answer, {test::tiny::begin, test::tiny::think}).text == "<think>");
}

TEST_CASE("cancel ends the answer and gives what was held back, once") {
  completion_params params;
  params.stops = {"hello!"};
  completion answer = begin(params);
  feed(answer, {test::tiny::hello});
  CHECK(answer.cancel() == "hello");
  CHECK(answer.reason() == finish::cancelled);
  CHECK(answer.cancel().empty());

  completion ended = begin();
  feed(ended, {test::tiny::end});
  CHECK(ended.cancel().empty());
  CHECK(ended.reason() == finish::stop);
}

TEST_CASE("the history is the prompt and every token since") {
  completion answer = begin({}, {'a', 'b'});
  feed(answer, {'x', test::tiny::end});
  CHECK(ids(answer.history().begin(), answer.history().end()) == ids{'a', 'b', 'x', test::tiny::end});
  CHECK(ids(answer.generated().begin(), answer.generated().end()) == ids{'x', test::tiny::end});
  CHECK(answer.n_prompt() == 2);
  CHECK(answer.n_generated() == 2);
}

TEST_CASE("the repetition penalty sees the prompt and the answer") {
  completion_params params;
  params.sampling.repeat_penalty = 100;
  completion answer = begin(params, {'p'});
  std::vector<float> row(test::tiny::n_vocab, 0);
  row['p'] = 3;
  row['q'] = 2;
  row['r'] = 1;
  CHECK(answer.accept(row).token == 'q');
  CHECK(answer.accept(row).token == 'r');
}

TEST_CASE("logits beyond the vocabulary are padding and never picked") {
  completion answer = begin();
  std::vector<float> row = row_for('x', test::tiny::n_vocab + 6);
  row.back() = 9;
  CHECK(answer.accept(row).token == 'x');
}

TEST_CASE("the hash is that of all rows, padding included, one after another") {
  completion_params params;
  params.hash_logits = true;
  completion answer = begin(params);
  CHECK(answer.logits_hash_hex() == "99aa06d3014798d86001c324468d497f");  // of no bytes, as XXH3's own tests have it

  std::vector<float> all;
  for (const token_id token : {'x', 'y', 'z'}) {
    const auto row = row_for(token, test::tiny::n_vocab + 6);
    answer.accept(row);
    all.insert(all.end(), row.begin(), row.end());
  }
  const XXH128_hash_t whole = XXH3_128bits(all.data(), all.size() * sizeof(float));
  char hex[33];
  std::snprintf(hex, sizeof hex, "%016" PRIx64 "%016" PRIx64, std::uint64_t{whole.high64}, std::uint64_t{whole.low64});
  CHECK(answer.logits_hash_hex() == hex);
}

TEST_CASE("without hash_logits there is no hash") {
  completion answer = begin();
  feed(answer, {'x'});
  CHECK(answer.logits_hash_hex().empty());
}

TEST_CASE("one bit of one logit changes the hash") {
  completion_params params;
  params.hash_logits = true;
  completion one = begin(params);
  completion other = begin(params);
  std::vector<float> row = row_for('x');
  one.accept(row);
  row[3] = std::nextafter(row[3], 0.0f);
  other.accept(row);
  CHECK(one.logits_hash_hex() != other.logits_hash_hex());
}

TEST_CASE("a completion is refused for what is wrong with its parameters or prompt, by name") {
  completion_params params;
  params.max_tokens = 0;
  CHECK_THAT(error_of(params).text, Catch::Contains("max_tokens"));
  params = {};
  params.sampling.top_p = 2;
  CHECK_THAT(error_of(params).text, Catch::Contains("top_p"));
  params = {};
  params.stops = {""};
  CHECK_THAT(error_of(params).text, Catch::Contains("stop string 0"));
  for (const token_id outside : {-1, test::tiny::n_vocab}) {
    const error what = error_of({}, {'a', outside});
    CHECK(what.code == errc::bad_value);
    CHECK_THAT(what.text, Catch::Contains("token 1 of the prompt") && Catch::Contains(std::to_string(outside)));
  }
}

TEST_CASE("a step says how likely its token was if asked to, by the logits as they are, and picks the same") {
  completion_params plain;
  plain.sampling.temperature = 0.7f;
  plain.sampling.seed = 3;
  plain.hash_logits = true;
  completion_params telling = plain;
  telling.logprobs = 2;
  completion silent = begin(plain), telling_one = begin(telling);
  std::vector<float> row(test::tiny::n_vocab + 10, 0.0f);  // padded: what lies beyond the vocabulary is no token
  row[test::tiny::hello] = 3;
  row[test::tiny::n_vocab + 1] = 50;
  for (int i = 0; i < 20; ++i) {
    const step bare = silent.accept(row);
    const step told = telling_one.accept(row);
    CHECK(told.token == bare.token);
    CHECK_FALSE(bare.logprobs);
    REQUIRE(told.logprobs);
    CHECK(*told.logprobs == logprobs_of(std::span(row).first(test::tiny::n_vocab), told.token, 2));
    CHECK(told.logprobs->likeliest.front().token == test::tiny::hello);
    CHECK(told.logprobs->likeliest.size() == 2);
  }
  CHECK(silent.logits_hash_hex() == telling_one.logits_hash_hex());
}

}  // namespace ebb::model

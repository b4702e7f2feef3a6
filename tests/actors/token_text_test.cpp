#include "actors/token_text.hpp"
#include "config/limits.hpp"
#include "support/demo.hpp"

namespace ebb::actors {
namespace {

using test::demo;

bus::tokenized tokens(const std::string& text, bool special = false) {
  const auto found = tokens_of(*demo().vocabulary, {text, special});
  REQUIRE(found);
  return *found;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string all;
  for (const std::string& each : pieces) all += each;
  return all;
}

TEST_CASE("the pieces of a text's tokens are its bytes, whatever they are, and the tokens give the text back") {
  for (const std::string text : {"In the beginning", "", " \n\t", "na\xc3\xafve \xf0\x9f\x98\x80", "\xff\xfe no UTF-8", "<|im_end|>"}) {
    const bus::tokenized found = tokens(text);
    CHECK(found.ids == demo().vocabulary->encode(text, false));
    CHECK(found.pieces.size() == found.ids.size());
    CHECK(joined(found.pieces) == text);
    const auto back = text_of(*demo().vocabulary, {found.ids});
    REQUIRE(back);
    CHECK(back->text == text);
  }
}

TEST_CASE("special tokens are taken as such only if asked for, and are shown as they are written") {
  const auto end = demo().vocabulary->find("<|im_end|>");
  REQUIRE(end);
  CHECK(tokens("a<|im_end|>", true).ids.back() == *end);
  CHECK(tokens("a<|im_end|>", true).pieces.back() == "<|im_end|>");
  CHECK(tokens("a<|im_end|>").ids.size() > 3);
  CHECK(text_of(*demo().vocabulary, {{*end}})->text == "<|im_end|>");
}

TEST_CASE("a token outside the vocabulary is refused by its number, and what no message carries is too large") {
  const auto n_vocab = static_cast<token_id>(demo().vocabulary->n_vocab());
  const auto outside = text_of(*demo().vocabulary, {{0, n_vocab}});
  REQUIRE_FALSE(outside);
  CHECK(outside.error().code == errc::bad_value);
  CHECK_THAT(outside.error().text, Catch::Contains("ids[1] is " + std::to_string(n_vocab)));
  CHECK_FALSE(text_of(*demo().vocabulary, {{-1}}));

  const auto long_text = tokens_of(*demo().vocabulary, {std::string(limits::tokenize_bytes_max + 1, 'a'), false});
  REQUIRE_FALSE(long_text);
  CHECK(long_text.error().code == errc::too_large);
  const auto end = demo().vocabulary->find("<|im_end|>");
  const auto many = text_of(*demo().vocabulary, {std::vector<token_id>(limits::detokenized_bytes_max / 10 + 1, *end)});
  REQUIRE_FALSE(many);
  CHECK(many.error().code == errc::too_large);
}

}  // namespace
}  // namespace ebb::actors

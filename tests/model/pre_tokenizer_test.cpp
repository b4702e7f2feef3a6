#include "model/pre_tokenizer.hpp"
#include "tests/model/support/random_bytes.hpp"
#include <catch2/catch.hpp>
#include <string>

namespace ebb::model {
namespace {

using pieces = std::vector<std::string>;

pieces split(std::string_view family, std::string_view text) {
  const auto pre = pre_tokenizer::make(family);
  REQUIRE(pre.has_value());
  const auto views = pre->split(text);
  return {views.begin(), views.end()};
}

std::string joined(const std::vector<std::string_view>& views) {
  std::string text;
  for (const std::string_view view : views) text += view;
  return text;
}

}  // namespace

TEST_CASE("digits stay together in gpt-2, go one by one in qwen2 and by threes in llama-bpe") {
  CHECK(split("gpt-2", "x 12345") == pieces{"x", " 12345"});
  CHECK(split("qwen2", "x 12345") == pieces{"x", " ", "1", "2", "3", "4", "5"});
  CHECK(split("llama-bpe", "x 12345") == pieces{"x", " ", "123", "45"});
}

TEST_CASE("contractions are told by case in gpt-2 only") {
  CHECK(split("gpt-2", "don't IT'LL") == pieces{"don", "'t", " IT", "'", "LL"});
  CHECK(split("qwen2", "don't IT'LL") == pieces{"don", "'t", " IT", "'LL"});
  CHECK(split("llama-bpe", "we'Ve") == pieces{"we", "'Ve"});
}

TEST_CASE("a word takes one space in gpt-2 and one character of punctuation or space elsewhere") {
  CHECK(split("gpt-2", "(word)\tnext  two") == pieces{"(", "word", ")", "\t", "next", " ", " two"});
  CHECK(split("qwen2", "(word)\tnext  two") == pieces{"(word", ")", "\tnext", " ", " two"});
}

TEST_CASE("newlines end a run of punctuation or of space in qwen2 and llama-bpe") {
  CHECK(split("qwen2", "end.\r\n\r\n  next") == pieces{"end", ".\r\n\r\n", " ", " next"});
  CHECK(split("qwen2", " \n \n  x") == pieces{" \n \n", " ", " x"});
  CHECK(split("gpt-2", "end.\n\nnext") == pieces{"end", ".", "\n", "\n", "next"});
}

TEST_CASE("letters, marks and digits are those of Unicode") {
  CHECK(split("qwen2", "Привет, мир") == pieces{"Привет", ",", " мир"});
  CHECK(split("qwen2", "½٣") == pieces{"½", "٣"});
  CHECK(split("qwen2", "e\u0301a") == pieces{"e", "\u0301a"});
}

TEST_CASE("space is Unicode's White_Space: U+0085 is, U+180E is not") {
  CHECK(split("gpt-2", "a\u0085\u2003b") == pieces{"a", "\u0085", "\u2003", "b"});
  CHECK(split("gpt-2", "a \u180E") == pieces{"a", " \u180E"});
}

TEST_CASE("trailing space is one piece, and space before a word leaves it the last one") {
  for (const char* family : {"gpt-2", "qwen2", "llama-bpe"}) {
    CHECK(split(family, "a   ") == pieces{"a", "   "});
    CHECK(split(family, "a   b") == pieces{"a", "  ", " b"});
  }
}

TEST_CASE("a run of bytes that are not UTF-8 is a piece of its own, and the text around it is cut as if it stood alone") {
  CHECK(split("qwen2", "ab\xFF\xC0\x80 cd") == pieces{"ab", "\xFF\xC0\x80", " cd"});
  CHECK(split("qwen2", "\xF0\x9F") == pieces{"\xF0\x9F"});
  CHECK(split("qwen2", "a  \xFF") == pieces{"a", "  ", "\xFF"});
}

TEST_CASE("the pieces together are the text, and none is empty") {
  std::mt19937_64 random(21);
  for (const char* family : {"gpt-2", "qwen2", "llama-bpe"}) {
    const auto pre = pre_tokenizer::make(family);
    CHECK(pre->split("").empty());
    for (int round = 0; round < 500; ++round) {
      const std::string text = round % 2 ? test::random_damaged_text(random, 40) : test::random_bytes(random, 60);
      const auto views = pre->split(text);
      REQUIRE(joined(views) == text);
      for (const std::string_view view : views) REQUIRE_FALSE(view.empty());
    }
  }
}

// The interpreter would give up after ten million steps, one a space, if its limit had not been lifted.
TEST_CASE("no limit is in the way of a long run of one kind of character") {
  for (const char* family : {"gpt-2", "qwen2", "llama-bpe"}) {
    const auto pre = pre_tokenizer::make(family);
    CHECK(pre->split(std::string(11'000'000, ' ') + 'a').size() == 2);
    for (const char one : {' ', 'a', '!', '\n'}) CHECK(pre->split(std::string(1'000'000, one)).size() == 1);
  }
}

TEST_CASE("published names of a family lead to it") {
  const auto family_of = [](const char* name) { return pre_tokenizer::make(name)->family().name; };
  for (const char* name : {"gpt-2", "gpt2", "default", "", "phi-2", "olmo"}) CHECK(family_of(name) == "gpt-2");
  for (const char* name : {"qwen2", "deepseek-r1-qwen"}) CHECK(family_of(name) == "qwen2");
  for (const char* name : {"llama-bpe", "llama3", "llama-v3"}) CHECK(family_of(name) == "llama-bpe");
}

TEST_CASE("an unknown name is refused with the known ones") {
  const auto made = pre_tokenizer::make("klingon");
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().code == errc::unsupported_tokenizer);
  for (const char* word : {"\"klingon\"", "gpt-2", "qwen2", "llama-bpe"}) CHECK_THAT(made.error().text, Catch::Contains(word));
}

}  // namespace ebb::model

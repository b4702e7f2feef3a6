#include "model/utf8.hpp"
#include "tests/model/support/random_bytes.hpp"
#include <catch2/catch.hpp>

namespace ebb::model {
namespace {

using kind = utf8_unit::kind;

std::string repaired(std::string_view bytes) {
  utf8_stream stream;
  std::string text = stream.push(bytes);
  return text + stream.finish();
}

const std::string fffd = "\xEF\xBF\xBD";

std::string times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

bool is_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

// Three bytes as the pattern of UTF-8 would give, though a surrogate has no encoding.
std::string three_bytes(char32_t c) {
  return {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
}

}  // namespace

TEST_CASE("every scalar value is read back from its encoding, and cut short it is incomplete") {
  std::size_t n_wrong = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (is_surrogate(c)) continue;
    std::string text;
    append_utf8(text, c);
    const utf8_unit whole = first_unit(text);
    n_wrong += whole.what != kind::character || whole.size_bytes != text.size() || whole.code_point != c;
    for (std::size_t size = 1; size < text.size(); ++size) {
      const utf8_unit cut = first_unit(text.substr(0, size));
      n_wrong += cut.what != kind::incomplete || cut.size_bytes != size;
    }
  }
  CHECK(n_wrong == 0);
}

TEST_CASE("surrogates, overlong forms and values above U+10FFFF are no characters") {
  for (char32_t c = 0xD800; c <= 0xDFFF; ++c) {
    const utf8_unit unit = first_unit(three_bytes(c));
    if (unit.what != kind::invalid || unit.size_bytes != 1) FAIL("surrogate " << std::hex << std::uint32_t{c});
  }
  for (const char* bytes : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
                            "\xFF", "\x80"}) {
    INFO(bytes);
    CHECK(first_unit(bytes).what == kind::invalid);
    CHECK(first_unit(bytes).size_bytes == 1);
  }
}

// The worked examples of the Unicode Standard, chapter 3.9, tables 3-8 to 3-11.
TEST_CASE("each maximal subpart becomes one replacement character") {
  CHECK(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") == times(8, fffd) + "A");
  CHECK(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") == times(8, fffd) + "A");
  CHECK(repaired("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") == times(5, fffd) + "A" + times(2, fffd) + "B");
  CHECK(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == times(4, fffd) + "A");
}

TEST_CASE("a stream keeps back the beginning of a character until it is whole") {
  utf8_stream stream;
  CHECK(stream.push("a\xF0\x9F") == "a");
  CHECK(stream.push("\x90").empty());
  CHECK(stream.push("\xB3") == "\xF0\x9F\x90\xB3");
  CHECK(stream.finish().empty());
}

TEST_CASE("a stream replaces a beginning as soon as it can no longer become a character") {
  utf8_stream stream;
  CHECK(stream.push("\xF0\x9F").empty());
  CHECK(stream.push("a") == fffd + "a");
}

TEST_CASE("finish replaces a character cut off, once") {
  utf8_stream stream;
  CHECK(stream.push("\xF0\x9F\x90").empty());
  CHECK(stream.finish() == fffd);
  CHECK(stream.finish().empty());
  CHECK(stream.push("ok") == "ok");
}

TEST_CASE("a stream gives valid UTF-8 at every push and the same text however the bytes are cut") {
  std::mt19937_64 random(12);
  for (int round = 0; round < 2000; ++round) {
    const std::string bytes = round % 2 ? test::random_damaged_text(random, 20) : test::random_bytes(random, 40);
    utf8_stream stream;
    std::string text;
    for (const std::string_view piece : test::random_cuts(random, bytes, 5)) {
      const std::string pushed = stream.push(piece);
      REQUIRE(test::valid_for_json(pushed));
      text += pushed;
    }
    text += stream.finish();
    REQUIRE(text == repaired(bytes));
    REQUIRE(test::valid_for_json(text));
    if (test::valid_for_json(bytes)) REQUIRE(text == bytes);
  }
}

}  // namespace ebb::model

#include "config/utf8.hpp"
#include "tests/model/support/random_bytes.hpp"
#include <catch2/catch.hpp>

using namespace ebb;

TEST_CASE("valid UTF-8 is every character but surrogates, in its shortest form") {
  CHECK(first_invalid_utf8("") == std::nullopt);
  CHECK(first_invalid_utf8("a\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf") ==
        std::nullopt);
  CHECK(first_invalid_utf8("a\x80") == 1u);  // a continuation without a beginning
  CHECK(first_invalid_utf8("a\xc3") == 1u);  // a beginning without a continuation
  CHECK(first_invalid_utf8("\xe2\x82z") == 0u);
  CHECK(first_invalid_utf8("\xc0\xaf") == 0u);  // overlong forms
  CHECK(first_invalid_utf8("\xc1\xbf") == 0u);
  CHECK(first_invalid_utf8("\xe0\x9f\xbf") == 0u);
  CHECK(first_invalid_utf8("\xf0\x8f\xbf\xbf") == 0u);
  CHECK(first_invalid_utf8("\xed\xa0\x80") == 0u);      // a surrogate
  CHECK(first_invalid_utf8("\xf4\x90\x80\x80") == 0u);  // beyond U+10FFFF
  CHECK(first_invalid_utf8("\xf5\x80\x80\x80") == 0u);
  CHECK(first_invalid_utf8("\xff") == 0u);
}

TEST_CASE("repairing replaces each stray byte and keeps the rest") {
  CHECK(repaired_utf8("abc") == "abc");
  CHECK(repaired_utf8("a\xff"
                      "b\x80") ==
        "a\xef\xbf\xbd"
        "b\xef\xbf\xbd");
  CHECK(repaired_utf8("\xe2\x82\xac\xe2\x82") == "\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("a quoted text is one short line, cut between characters") {
  CHECK(in_quotes("abc") == "\"abc\"");
  CHECK(in_quotes("a\nb\x7f\xff") ==
        "\"a\\x0a"
        "b\\x7f\\xff\"");
  CHECK(in_quotes(std::string(80, 'x')) == "\"" + std::string(80, 'x') + "\"");
  CHECK(in_quotes(std::string(81, 'x')) == "\"" + std::string(80, 'x') + "\"...");
  const std::string euros = [] {
    std::string out;
    for (int count = 0; count < 40; ++count) out += "\xe2\x82\xac";
    return out;
  }();
  CHECK(first_invalid_utf8(in_quotes(euros)) == std::nullopt);
}

TEST_CASE("no text that is shown commands a terminal: an escape, a line feed and the control characters above ASCII are escaped or become spaces") {
  const std::string hostile = "a\x1b[31m\r\n\xc2\x9b" "2Jb\xff";
  CHECK(in_quotes(hostile) == "\"a\\x1b[31m\\x0d\\x0a\\xc2\\x9b2Jb\\xff\"");
  CHECK(on_one_line(hostile) == "a [31m   2Jb\xef\xbf\xbd");
  CHECK(on_one_line("caf\xc3\xa9 \xc2\xa0 \"quoted\"") == "caf\xc3\xa9 \xc2\xa0 \"quoted\"");
  CHECK(on_one_line("").empty());
  CHECK(on_one_line("a\u202Eb\u2028c\u2066d\u200Ee") == "a b c d e");
  CHECK(on_one_line("\u2014 \u2265 \u4e2d") == "\u2014 \u2265 \u4e2d");
  CHECK(in_quotes("a\u202Eb") == "\"a\\xe2\\x80\\xaeb\"");
}

TEST_CASE("what is valid UTF-8 agrees with another library on damaged text") {
  std::mt19937_64 random(11);
  int n_valid = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string text = model::test::random_damaged_text(random, 12);
    n_valid += is_valid_utf8(text);
    REQUIRE(is_valid_utf8(text) == model::test::valid_for_json(text));
  }
  CHECK(n_valid > 400);
  CHECK(n_valid < 3600);
}

#include "model/stop_matcher.hpp"
#include "config/limits.hpp"
#include "tests/model/support/random_bytes.hpp"
#include <catch2/catch.hpp>

namespace ebb::model {
namespace {

using strings = std::vector<std::string>;

stop_matcher matcher(const strings& stops) {
  auto made = stop_matcher::make(stops);
  REQUIRE(made.has_value());
  return std::move(*made);
}

// The text up to the stop string whose last byte comes first, the longest of those; all of it if there is none.
std::string text_before_stop(const std::string& text, const strings& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

// The longest end of `text` that begins a stop string, which is what must be held back and no more.
std::size_t held_bytes(const std::string& text, const strings& stops) {
  for (std::size_t size = text.size(); size > 0; --size) {
    for (const std::string& stop : stops) {
      if (size < stop.size() && text.compare(text.size() - size, size, stop, 0, size) == 0) return size;
    }
  }
  return 0;
}

std::string random_letters(std::mt19937_64& random, std::size_t size) {
  std::string text(size, '\0');
  for (char& letter : text) letter = static_cast<char>('a' + test::below(random, 2));
  return text;
}

}  // namespace

TEST_CASE("text passes through when there is no stop string") {
  stop_matcher none = matcher({});
  CHECK(none.push("anything") == "anything");
  CHECK_FALSE(none.matched());
  CHECK(none.finish().empty());
}

TEST_CASE("the stop string and what follows it are dropped") {
  stop_matcher one = matcher({"END"});
  CHECK(one.push("text END more") == "text ");
  CHECK(one.matched());
  CHECK(one.push("and more").empty());
  CHECK(one.finish().empty());
}

TEST_CASE("what may be the beginning of a stop string waits, and is let go when it is not") {
  stop_matcher one = matcher({"\nUser:"});
  CHECK(one.push("hi\nUs") == "hi");
  CHECK(one.push("e") == "");
  CHECK(one.push("d car") == "\nUsed car");
  CHECK(one.push("\nUser") == "");
  CHECK(one.finish() == "\nUser");
}

TEST_CASE("a stop string may straddle any number of pieces") {
  stop_matcher one = matcher({"abc"});
  CHECK(one.push("xa") == "x");
  CHECK(one.push("b").empty());
  CHECK(one.push("cd").empty());
  CHECK(one.matched());
}

TEST_CASE("a failed match may contain the beginning of the next") {
  stop_matcher one = matcher({"aab"});
  CHECK(one.push("aaa") == "a");
  CHECK(one.push("b").empty());
  CHECK(one.matched());
}

TEST_CASE("the stop string that is complete first counts, of several at one byte the longest") {
  CHECK(matcher({"abcd", "bc"}).push("xabcd") == "xa");
  CHECK(matcher({"bc", "abc"}).push("xabc") == "x");
}

TEST_CASE("whatever the cuts, the text is that before the first stop string, and no more is held back than must be") {
  std::mt19937_64 random(51);
  int n_matched = 0;
  for (int round = 0; round < 5000; ++round) {
    strings stops(1 + test::below(random, 3));
    for (std::string& stop : stops) stop = random_letters(random, 1 + test::below(random, 7));
    const std::string text = random_letters(random, test::below(random, 30));

    stop_matcher one = matcher(stops);
    std::string pushed;
    std::string let_through;
    for (const std::string_view piece : test::random_cuts(random, text, 4)) {
      pushed += piece;
      let_through += one.push(piece);
      if (!one.matched()) REQUIRE(let_through.size() == pushed.size() - held_bytes(pushed, stops));
    }
    const bool stopped = one.matched();
    let_through += one.finish();
    const std::string expected = text_before_stop(text, stops);
    REQUIRE(let_through == expected);
    REQUIRE(stopped == (expected != text));
    n_matched += stopped;
  }
  CHECK(n_matched > 1000);
  CHECK(n_matched < 4500);
}

TEST_CASE("stop strings that break a bound are refused with their number") {
  const auto refused = [](const strings& stops) {
    const auto made = stop_matcher::make(stops);
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().code == errc::bad_value);
    return made.error().text;
  };
  CHECK_THAT(refused({"ok", ""}), Catch::Contains("stop string 1"));
  CHECK_THAT(refused({std::string(limits::stop_bytes_max + 1, 'x')}), Catch::Contains("stop string 0") && Catch::Contains("1025"));
  CHECK_THAT(refused({"a", "b", "\x80"}), Catch::Contains("stop string 2") && Catch::Contains("UTF-8"));
  CHECK_THAT(refused(strings(limits::stop_strings_max + 1, "x")), Catch::Contains("17"));
  CHECK(stop_matcher::make(strings(limits::stop_strings_max, std::string(limits::stop_bytes_max, 'x'))).has_value());
}

}  // namespace ebb::model

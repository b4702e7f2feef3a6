#include "tools/terminal_text.hpp"
#include <catch2/catch.hpp>

namespace ebb::tools {

TEST_CASE("a letter of ASCII takes one column, a Chinese one two, and a mark that combines none") {
  CHECK(columns_of("") == 0);
  CHECK(columns_of("card 0") == 6);
  CHECK(columns_of("caf\u00e9 \u2588\u00b7") == 7);
  CHECK(columns_of("\u4e2d\u6587") == 4);
  CHECK(columns_of("e\u0301") == 1);
}

TEST_CASE("a text is cut before the letter that would pass the last column, never inside one") {
  CHECK(cut_to_columns("abcdef", 3) == "abc");
  CHECK(cut_to_columns("a\u4e2d\u6587", 4) == "a\u4e2d");
  CHECK(cut_to_columns("a\u4e2d\u6587", 5) == "a\u4e2d\u6587");
  CHECK(cut_to_columns("\u4e2d", 1).empty());
  CHECK(cut_to_columns("abc", 0).empty());
}

}  // namespace ebb::tools

#include "bus/crc32.hpp"
#include <catch2/catch.hpp>
#include <string>

using namespace ebb::bus;

TEST_CASE("crc32 gives the sums that zlib gives") {
  CHECK(crc32({}) == 0);
  CHECK(crc32(as_bytes("a")) == 0xe8b7be43);
  CHECK(crc32(as_bytes("123456789")) == 0xcbf43926);
  CHECK(crc32(as_bytes("The quick brown fox jumps over the lazy dog")) == 0x414fa339);
}

TEST_CASE("crc32 of a text in two parts, wherever it is cut, is that of the whole") {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    CHECK(crc32(as_bytes(text).subspan(cut), crc32(as_bytes(text).first(cut))) == 0x414fa339);
  }
}

#include "bus/codec.hpp"
#include "tests/bus/support/pack.hpp"
#include <catch2/catch.hpp>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;

request_id id_7() { return {std::uint64_t{7}}; }

std::string refusal_of(const std::string& packed) {
  const auto answer = decode_reply(pack::frame(packed));
  REQUIRE_FALSE(answer.has_value());
  return answer.error().text;
}

}  // namespace

TEST_CASE("a reply is the map that docs/BUS.md describes") {
  // Fixed keys, small numbers in one byte, in the order of the field lists.
  const auto encoded = [](const reply& answer) { return std::string(as_text(encode_reply(answer, false))); };
  CHECK(encoded({id_7(), token{0, 5, "hi", {}, {}}}) ==
        "\x87\xa1v\x01\xa2id\x07\xa4type\xa5token\xa4last\xc2\xa5index" + std::string(1, '\0') + "\xa5token\x05\xa4text\xa2hi");
  CHECK(encoded({{std::string("x")}, cancelled{}}) ==
        "\x84\xa1v\x01\xa2id\xa1x\xa4type\xa9"
        "cancelled\xa4last\xc3");
  CHECK(encoded({{}, error{errc::busy, "no"}}) ==
        "\x86\xa1v\x01\xa2id\xc0\xa4type\xa5"
        "error\xa4last\xc3\xa4"
        "code\xa4"
        "busy\xa4text\xa2no");
}

TEST_CASE("only a token is not the last reply to its request") {
  CHECK_FALSE((reply{id_7(), token{}}.last()));
  CHECK((reply{id_7(), done{}}.last()));
  CHECK((reply{id_7(), vram_report{}}.last()));
  CHECK((reply{id_7(), error{}}.last()));
}

TEST_CASE("a client skips the keys that a newer daemon added") {
  const auto answer = decode_reply(pack::frame(pack::map({{"v", pack::whole(1)},
                                                          {"id", pack::whole(7)},
                                                          {"type", pack::text("cancelled")},
                                                          {"last", pack::boolean(true)},
                                                          {"mood", pack::map({{"good", pack::boolean(true)}})}})));
  REQUIRE(answer.has_value());
  CHECK(std::holds_alternative<cancelled>(answer->body));
}

TEST_CASE("a reply that is not one is refused by the name of what is wrong") {
  const std::string one = pack::whole(1);
  const std::string seven = pack::whole(7);
  const std::string vram_type = pack::text("vram");
  const auto vram_with = [&](const std::string& cards) {
    return pack::map({{"v", one}, {"id", seven}, {"type", vram_type}, {"last", pack::boolean(true)}, {"cards", cards}});
  };
  CHECK(refusal_of("") == "reply: the frame ends in the middle of a value");
  CHECK(refusal_of(one) == "reply: the frame must be a map, not 1");
  CHECK(refusal_of(pack::map({}) + one) == "reply: after the map come 9 more bytes; a frame is one map and nothing else");
  CHECK(refusal_of(pack::map({{"v", pack::whole(9)}})) == "reply: v must be 1, not 9");
  CHECK(refusal_of(pack::map({{"v", one}, {"id", seven}})) == "reply: type is missing; it must be text");
  CHECK(refusal_of(pack::map({{"v", one}, {"id", seven}, {"type", pack::text("song")}})) ==
        "reply: type \"song\" is not known; this client is older than the daemon");
  CHECK(refusal_of(vram_with(pack::map({}))) == "reply: cards must be a list, not a map of 0");
  CHECK(refusal_of(vram_with(pack::list({one}))) == "reply: cards[0] must be a map, not 1");
  CHECK(refusal_of(vram_with(pack::list({pack::map({})}))) ==
        "reply: cards[0]: device is missing; it must be a whole number from 0 to 4294967295");
}

TEST_CASE("a text that is not UTF-8 leaves the daemon repaired") {
  const auto answer = decode_reply(encode_reply({id_7(), token{0, 1, "a\xf0\x9f\x98z", {}, {}}}, false));
  REQUIRE(answer.has_value());
  CHECK(std::get<token>(answer->body).text == "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
}

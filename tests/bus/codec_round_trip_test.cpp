#include "bus/codec.hpp"
#include "tests/bus/support/arbitrary_message.hpp"
#include "tests/bus/support/codec_invariants.hpp"
#include "tests/bus/support/pack.hpp"
#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;

bytes drawn_frame() { return *rc::gen::arbitrary<bool>() ? encode_request(drawn_request()) : encode_reply(drawn_reply(), false); }

void check_any_frame(bytes_view frame) {
  check_any_request(frame);
  check_any_reply(frame);
}

}  // namespace

TEST_CASE("what is encoded is decoded to the same") {
  rc::prop("requests", [] {
    const request sent = drawn_request();
    const auto got = decode_request(encode_request(sent));
    RC_ASSERT(got.has_value());
    RC_ASSERT(*got == sent);
  });
  rc::prop("replies", [] {
    const reply sent = drawn_reply();
    const auto got = decode_reply(encode_reply(sent, false));
    RC_ASSERT(got.has_value());
    RC_ASSERT(same(*got, sent));
  });
}

TEST_CASE("a frame that was cut short at any byte is refused as malformed") {
  rc::prop("requests and replies", [] {
    const bytes whole = drawn_frame();
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const bytes_view part = bytes_view(whole).first(size);
      const auto asked = decode_request(part);
      RC_ASSERT(!asked.has_value());
      RC_ASSERT(asked.error().why.code == errc::malformed);
      RC_ASSERT(decode_reply(part).error().code == errc::malformed);
    }
  });
}

TEST_CASE("any bytes are taken or refused, and a refusal can be sent") {
  rc::prop("random bytes", [](const std::vector<std::uint8_t>& random) { check_any_frame(std::as_bytes(std::span(random))); });
  rc::prop("messages with a few bytes changed", [] {
    bytes frame = drawn_frame();
    for (int changes = *rc::gen::inRange(1, 5); changes > 0; --changes) {
      frame[*rc::gen::inRange<std::size_t>(0, frame.size())] = std::byte{*rc::gen::arbitrary<std::uint8_t>()};
    }
    check_any_frame(frame);
  });
  rc::prop("messages joined in the middle", [] {
    bytes frame = drawn_frame();
    const bytes other = drawn_frame();
    frame.resize(*rc::gen::inRange<std::size_t>(0, frame.size()));
    frame.insert(frame.end(), other.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(other)), other.end());
    check_any_frame(frame);
  });
}

TEST_CASE("announced sizes without the bytes to match cost nothing") {
  const std::string four_billion = pack::big_endian(0xffffffff, 4);
  for (const std::string& head : {"\xdd" + four_billion, "\xdf" + four_billion, "\xdb" + four_billion, "\xc6" + four_billion,
                                  "\xc9" + four_billion + "\x01"}) {
    CHECK(decode_request(pack::frame(head)).error().why.code == errc::malformed);
  }
}

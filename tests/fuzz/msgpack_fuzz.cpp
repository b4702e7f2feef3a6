// tests/fuzz/msgpack_fuzz.cpp: any bytes that arrive as a frame are taken or refused with a refusal that can be sent, at a
// client's end too.
#include "tests/bus/support/codec_invariants.hpp"
#include <cstddef>
#include <cstdint>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto frame = std::as_bytes(std::span(data, size));
  ebb::bus::test::check_any_request(frame);
  ebb::bus::test::check_any_reply(frame);
  return 0;
}

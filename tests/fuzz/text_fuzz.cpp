// tests/fuzz/text_fuzz.cpp: any line is a text command or is refused on one line. Most begin with a command, since few random
// bytes would.
#include "tests/bus/support/codec_invariants.hpp"
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::array<std::string_view, 4> beginnings{"VRAM", "VRAM 1", "STATUS", ""};
  if (size == 0) return 0;
  std::string frame(beginnings[data[0] % beginnings.size()]);
  for (std::size_t index = 1; index < size; ++index) frame += static_cast<char>(data[index]);
  ebb::bus::test::check_any_request(ebb::bus::as_bytes(frame));
  return 0;
}

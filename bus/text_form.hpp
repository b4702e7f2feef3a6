// bus/text_form.hpp: commands and answers as lines of text, for people, shells and programs without msgpack.
//
//   VRAM | VRAM <reserve_mib> [device] | VRAM - [device]      STATUS      CARDS
//
// Upper case, words parted by blanks, one line feed at the end at most. A dash is the start's reserve, so that a device can
// follow. The answer is one frame of lines: "VRAM device=0 reserve_mib=700 ..." for each card, then "VRAM-DONE"; likewise for the
// other two; or the one line "ERR <code> <text>".
#pragma once
#include "bus/codec.hpp"
#include <string>
#include <string_view>

namespace ebb::bus {

tl::expected<request, refusal> parse_text(std::string_view frame);

// Pre: the body is one that a text command can have.
std::string text_of(const reply& answer);

}  // namespace ebb::bus

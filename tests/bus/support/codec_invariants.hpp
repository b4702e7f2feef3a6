// tests/bus/support/codec_invariants.hpp: what holds for any bytes at all that arrive as a frame. Random tests and fuzzers share
// it.
#pragma once
#include "bus/codec.hpp"
#include "config/assert.hpp"

namespace ebb::bus::test {

// A refusal can be answered, in the form and with the id of what was refused, and the answer has a text.
inline void check_refusal(const refusal& refused) {
  EBB_ASSERT(!refused.why.text.empty());
  const bytes sent = encode_reply(to_reply(refused), refused.text);
  if (refused.text) {
    EBB_ASSERT(as_text(sent).starts_with("ERR "));
    EBB_ASSERT(as_text(sent).find('\n') == std::string_view::npos);
    return;
  }
  const auto answer = decode_reply(sent);
  EBB_ASSERT(answer.has_value());
  EBB_ASSERT(answer->id == refused.id);
  EBB_ASSERT(std::get<error>(answer->body).text == refused.why.text);
}

// What is taken is complete enough to be sent again and mean the same.
inline void check_any_request(bytes_view frame) {
  const auto asked = decode_request(frame);
  if (!asked) return check_refusal(asked.error());
  EBB_ASSERT(asked->text == asked->id.empty());
  if (asked->text) return;
  const auto again = decode_request(encode_request(*asked));
  EBB_ASSERT(again.has_value());
  EBB_ASSERT(*again == *asked);
}

// Compared as bytes, since a measured figure may be NaN.
inline void check_any_reply(bytes_view frame) {
  const auto answer = decode_reply(frame);
  if (!answer) return EBB_ASSERT(!answer.error().text.empty());
  const bytes sent = encode_reply(*answer, false);
  const auto again = decode_reply(sent);
  EBB_ASSERT(again.has_value());
  EBB_ASSERT(encode_reply(*again, false) == sent);
}

}  // namespace ebb::bus::test

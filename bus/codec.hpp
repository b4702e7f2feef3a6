// bus/codec.hpp: bytes to messages and back. docs/BUS.md describes the bytes for those who write clients.
//
// A frame is one msgpack map, or text if its first byte is an ASCII letter (no msgpack map starts with one). Nothing here
// throws, keeps state or believes the sender: every field is typed and ranged, and what is refused is refused by name.
#pragma once
#include "bus/bytes.hpp"
#include "bus/messages.hpp"
#include "config/result.hpp"

namespace ebb::bus {

// Why a frame is no request. It keeps what could be read of the envelope, so that the answer finds its question.
struct refusal {
  request_id id;      // empty when there was none to read
  bool text = false;  // the frame was text, and so must the answer be
  error why;
};

// Errors: malformed (no message), unknown_command, unknown_key, missing_key, bad_value, too_large.
tl::expected<request, refusal> decode_request(bytes_view frame);

// The error reply that answers a refused frame.
reply to_reply(refusal refused);

// As text (`text` is that of the request) only vram_report, cards_report, status_report and error have a form; another body
// there is the caller's bug and asserts.
bytes encode_reply(const reply& answer, bool text);

// --- for clients

// Pre: asked.text is false and asked.id is not empty.
bytes encode_request(const request& asked);

// Reads msgpack only. Errors: as decode_request. Unknown keys are skipped, so that an older client understands a newer daemon.
result<reply> decode_reply(bytes_view frame);

}  // namespace ebb::bus

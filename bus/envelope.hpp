// bus/envelope.hpp: the fields that every msgpack message begins with: v, id, and what it is.
#pragma once
#include "bus/field_reader.hpp"
#include "bus/field_value.hpp"
#include "bus/request_id.hpp"
#include "bus/wire.hpp"
#include "config/limits.hpp"
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ebb::bus {

inline constexpr std::uint32_t protocol_version = 1;

// Begins a map that holds the envelope and `count` more fields.
inline void write_envelope(wire::writer& out, const request_id& id, std::string_view kind_key, std::string_view kind,
                           std::size_t count) {
  out.map(3 + count);
  out.text("v");
  out.whole(protocol_version);
  out.text("id");
  put(out, id);
  out.text(kind_key);
  out.text(kind);
}

inline void read_version(field_reader& reader) {
  std::uint32_t version = 0;
  reader.read("v", version, presence::required, range{protocol_version, protocol_version});
}

inline std::string trailing_text(std::size_t count) {
  return "after the map come " + std::to_string(count) + " more bytes; a frame is one map and nothing else";
}

// A frame that is one map and nothing else; `root` of what it gives is one. `what` begins the error texts. Errors: malformed, too_large.
inline result<wire::parsed> parse_map(bytes_view frame, const std::string& what) {
  if (frame.size() > limits::message_bytes_max) return fail(errc::too_large, what + ": the frame has " + std::to_string(frame.size()) + " bytes");
  auto parsed = wire::parse(frame);
  if (!parsed) return fail(parsed.error().code, what + ": " + parsed.error().text);
  if (!std::holds_alternative<wire::map>(parsed->root.held)) {
    return fail(errc::malformed, what + ": the frame must be a map, not " + describe(parsed->root));
  }
  if (parsed->trailing_bytes != 0) return fail(errc::malformed, what + ": " + trailing_text(parsed->trailing_bytes));
  return parsed;
}

}  // namespace ebb::bus

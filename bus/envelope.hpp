// bus/envelope.hpp: the fields that every msgpack message begins with: v, id, and what it is.
#pragma once
#include "bus/field_reader.hpp"
#include "bus/field_value.hpp"
#include "bus/request_id.hpp"
#include "bus/wire.hpp"
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

}  // namespace ebb::bus

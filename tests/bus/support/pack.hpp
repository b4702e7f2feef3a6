// tests/bus/support/pack.hpp: msgpack written byte by byte from its specification, so that tests can also write what our own
// writer never would.
#pragma once
#include "bus/bytes.hpp"
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

namespace ebb::bus::test::pack {

inline std::string big_endian(std::uint64_t what, int size_bytes) {
  std::string out;
  for (int shift = 8 * (size_bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(what >> shift);
  return out;
}

inline std::string nil() { return "\xc0"; }
inline std::string boolean(bool what) { return what ? "\xc3" : "\xc2"; }
inline std::string whole(std::uint64_t what) { return "\xcf" + big_endian(what, 8); }
inline std::string signed_whole(std::int64_t what) { return "\xd3" + big_endian(static_cast<std::uint64_t>(what), 8); }
inline std::string real(double what) { return "\xcb" + big_endian(std::bit_cast<std::uint64_t>(what), 8); }
inline std::string text(const std::string& what) { return "\xdb" + big_endian(what.size(), 4) + what; }
inline std::string raw(const std::string& what) { return "\xc6" + big_endian(what.size(), 4) + what; }

inline std::string list(std::initializer_list<std::string> elements) {
  std::string out = "\xdd" + big_endian(elements.size(), 4);
  for (const std::string& each : elements) out += each;
  return out;
}

using fields = std::initializer_list<std::pair<std::string, std::string>>;

inline std::string map(fields content) {
  std::string out = "\xdf" + big_endian(content.size(), 4);
  for (const auto& [key, value] : content) out += text(key) + value;
  return out;
}

inline bytes frame(const std::string& packed) {
  const bytes_view view = as_bytes(packed);
  return {view.begin(), view.end()};
}

}  // namespace ebb::bus::test::pack

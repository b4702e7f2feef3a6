// bus/wire.hpp: msgpack as a tree to read from and a stream to write to. Only wire.cpp knows the library.
#pragma once
#include "bus/bytes.hpp"
#include "config/result.hpp"
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ebb::bus::wire {

struct value;
struct field;
using array = std::vector<value>;
using map = std::vector<field>;  // in the order of the bytes; a key may occur twice

// msgpack's bin: frames and routing ids in a journal. No message on the bus has one.
struct blob {
  bytes_view content;
};

// msgpack's ext, which nothing of ours uses: known only in order to be refused by name.
struct extension {
  std::size_t size_bytes;
};

// A tree that looks into the frame it was read from, which must outlive it.
struct value {
  // uint64 holds every whole number >= 0, whatever its encoding, and int64 only those below.
  std::variant<std::monostate, bool, std::uint64_t, std::int64_t, double, std::string_view, blob, extension, array, map> held;
};

struct field {
  std::string_view key;
  value content;
};

struct parsed {
  value root;
  std::size_t trailing_bytes = 0;  // after the root; left to the caller, who can still answer to the root's id
};

// Errors: malformed (cut short, a byte that is no msgpack, a key that is not text, text that is not UTF-8), too_large (more than
// limits::message_values_max values, or deeper than limits::message_depth_max).
// `if_not_utf8` ends the text about such a text: what its sender may try.
result<parsed> parse(bytes_view frame, std::string_view if_not_utf8 = {});

// For error texts: nil, true, -1, 1.5, "abc", 7 raw bytes, a list of 3, a map of 2.
std::string describe(const value& what);

// Appends values one after the other. map() and array() announce how many follow: a key counts with its value as one.
class writer {
 public:
  void nil();
  void boolean(bool what);
  void whole(std::uint64_t what);
  void real(double what);
  void real(float what);
  void text(std::string_view what);  // repaired if it is not UTF-8
  void raw(bytes_view what);
  void array(std::size_t count);
  void map(std::size_t count);

  bytes take() { return std::move(out_); }

 private:
  bytes out_;
};

}  // namespace ebb::bus::wire

// bus/field_writer.hpp: writes the fields of a message into a msgpack map, the counterpart of field_reader.
#pragma once
#include "bus/field_value.hpp"
#include "bus/fields.hpp"
#include "bus/wire.hpp"
#include <cstddef>
#include <optional>
#include <vector>

namespace ebb::bus {

template <class T>
bool is_left_out(const T& what, presence when) {
  if constexpr (requires { what.has_value(); }) {
    return when == presence::optional && !what.has_value();
  } else if constexpr (requires { what.empty(); }) {
    return when == presence::optional && what.empty();
  } else {
    return false;
  }
}

// How many keys write_fields() will write, which a map must announce.
template <class Message>
std::size_t count_fields(const Message& message) {
  std::size_t count = 0;
  for_each_field(message,
                 [&](const auto& field, const auto& owner) { count += is_left_out(owner.*field.member, field.when) ? 0 : 1; });
  return count;
}

template <class Message>
void write_fields(wire::writer& out, const Message& message);

template <class T>
void write_value(wire::writer& out, const T& what) {
  if constexpr (requires { put(out, what); }) {
    put(out, what);
  } else {
    out.map(count_fields(what));
    write_fields(out, what);
  }
}

template <class T>
void write_value(wire::writer& out, const std::optional<T>& what) {
  what ? put(out, *what) : out.nil();
}

template <class T>
void write_value(wire::writer& out, const std::vector<T>& what) {
  out.array(what.size());
  for (const T& each : what) write_value(out, each);
}

template <class Message>
void write_fields(wire::writer& out, const Message& message) {
  for_each_field(message, [&](const auto& field, const auto& owner) {
    if (is_left_out(owner.*field.member, field.when)) return;
    out.text(field.key);
    write_value(out, owner.*field.member);
  });
}

}  // namespace ebb::bus

// bus/alternatives.hpp: from a message's name to its type, over the alternatives of a variant.
#pragma once
#include "bus/fields.hpp"
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace ebb::bus {

template <class Variant>
struct alternatives;

template <class... Messages>
struct alternatives<std::variant<Messages...>> {
  // Calls visit(Message{}) for the message of this name. False if there is none.
  template <class Visit>
  static bool visit_named(std::string_view name, Visit&& visit) {
    return ((name == name_of<Messages> && (visit(Messages{}), true)) || ...);
  }

  static std::vector<std::string_view> names() { return {name_of<Messages>...}; }
};

}  // namespace ebb::bus

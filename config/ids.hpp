// config/ids.hpp: identifiers as types of their own, so that two of them cannot be swapped.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace ebb {

// A number with a meaning. `Tag` only keeps the kinds apart.
template <class Tag, class Int>
struct id {
  using value_type = Int;
  Int value = 0;
  friend constexpr auto operator<=>(const id&, const id&) = default;
};

using card_id = id<struct card_tag, std::uint32_t>;        // the engine's device number, 0 first, in the order of the split
using slot_id = id<struct slot_tag, std::uint32_t>;        // a place in one card's cache; numbers repeat on each card
using session_id = id<struct session_tag, std::uint64_t>;  // one generate request, unique within a daemon's life
using token_id = std::int32_t;                             // an index into the vocabulary; a plain number, as files and clients have it

// One feed-forward block of one MoE layer. `layer` counts from the model's first layer, whatever the stage.
struct expert_id {
  std::uint32_t layer = 0;
  std::uint32_t index = 0;  // within the layer
  friend constexpr auto operator<=>(const expert_id&, const expert_id&) = default;
};

}  // namespace ebb

template <class Tag, class Int>
struct std::hash<ebb::id<Tag, Int>> {
  std::size_t operator()(const ebb::id<Tag, Int>& which) const noexcept { return std::hash<Int>{}(which.value); }
};

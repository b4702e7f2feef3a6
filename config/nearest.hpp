// config/nearest.hpp: the known word that a mistyped one was probably meant to be, for error texts.
//
// Distance: how many letters have to be inserted, removed, changed or swapped with their neighbour.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace ebb {

// The member of `known` with the smallest distance to `word`, the first of several. Empty when none is near: when half the
// letters of the longer word or more would have to change, a suggestion would only mislead.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

// `; did you mean "parallel"?` for the end of a refusal, or "" when nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace ebb

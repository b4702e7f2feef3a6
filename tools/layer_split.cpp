#include "tools/layer_split.hpp"
#include <algorithm>
#include <string>

namespace ebb::tools {

result<std::vector<layer_range>> split_layers(std::uint32_t n_layers, std::size_t n_cards, std::span<const std::uint32_t> first_layers) {
  if (n_cards == 0 || n_cards > n_layers) {
    return fail(errc::bad_value, "setting `cards`: " + std::to_string(n_cards) + " cards for a model of " + std::to_string(n_layers) +
                                     " layers; each card needs at least one");
  }
  std::vector<std::uint32_t> begins(first_layers.begin(), first_layers.end());
  if (begins.empty()) {
    const auto cards = static_cast<std::uint32_t>(n_cards);
    for (std::uint32_t card = 0; card < cards; ++card) begins.push_back(card * (n_layers / cards) + std::min(card, n_layers % cards));
  }
  std::vector<layer_range> ranges;
  for (std::size_t card = 0; card < begins.size(); ++card) {
    ranges.push_back({begins[card], card + 1 < begins.size() ? begins[card + 1] : n_layers});
  }
  const bool starts_at_zero = ranges.front().begin == 0;
  bool ascending = true;
  for (const layer_range& range : ranges) ascending = ascending && range.begin < range.end;
  if (!starts_at_zero || !ascending || ranges.size() != n_cards) {
    return fail(errc::bad_value, "setting `layers`: must give the first layer of each of " + std::to_string(n_cards) +
                                     " cards, ascending from 0 and below " + std::to_string(n_layers) + "; or \"auto\"");
  }
  return ranges;
}

}  // namespace ebb::tools

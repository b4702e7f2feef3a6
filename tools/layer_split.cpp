#include "tools/layer_split.hpp"
#include "config/assert.hpp"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace ebb::tools {
namespace {

std::vector<std::uint32_t> even_begins(std::uint32_t n_layers, std::uint32_t n_cards) {
  std::vector<std::uint32_t> begins;
  for (std::uint32_t card = 0; card < n_cards; ++card) begins.push_back(card * (n_layers / n_cards) + std::min(card, n_layers % n_cards));
  return begins;
}

// Each begin is the nearest to what is due to all cards before it, that leaves a layer for each of those and of those that follow.
std::vector<std::uint32_t> begins_by(std::uint32_t n_layers, std::span<const double> shares) {
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  const auto n_cards = static_cast<std::uint32_t>(shares.size());
  std::vector<std::uint32_t> begins{0};
  double before = 0;
  for (std::uint32_t card = 1; card < n_cards; ++card) {
    before += shares[card - 1];
    const auto due = static_cast<std::uint32_t>(std::lround(before / all * n_layers));
    begins.push_back(std::clamp(due, begins.back() + 1, n_layers - (n_cards - card)));
  }
  return begins;
}

}  // namespace

result<std::vector<layer_range>> split_layers(std::uint32_t n_layers, std::size_t n_cards, std::span<const std::uint32_t> first_layers,
                                              std::span<const double> shares) {
  EBB_ASSERT(shares.empty() || shares.size() == n_cards);
  if (n_cards == 0 || n_cards > n_layers) {
    return fail(errc::bad_value, "setting `cards`: " + std::to_string(n_cards) + " cards for a model of " + std::to_string(n_layers) +
                                     " layers; each card needs at least one");
  }
  std::vector<std::uint32_t> begins(first_layers.begin(), first_layers.end());
  if (begins.empty()) begins = shares.empty() ? even_begins(n_layers, static_cast<std::uint32_t>(n_cards)) : begins_by(n_layers, shares);
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

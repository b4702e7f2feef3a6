#include "tools/heat_split.hpp"
#include "config/assert.hpp"
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace ebb::tools {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();

std::size_t slots_of(const card_room& card, const layer_costs& costs, std::uint32_t n_layers) {
  const std::uint64_t taken = card.fixed_bytes + n_layers * costs.dense_bytes;
  return card.free_bytes > taken ? (card.free_bytes - taken) / costs.slot_bytes : 0;
}

double hottest(std::vector<float> heats, std::size_t n_slots) {
  if (n_slots < heats.size()) {
    std::nth_element(heats.begin(), heats.begin() + static_cast<std::ptrdiff_t>(n_slots), heats.end(), std::greater<>());
    heats.resize(n_slots);
  }
  return std::accumulate(heats.begin(), heats.end(), 0.0);
}

}  // namespace

std::vector<std::uint32_t> first_layers_by_heat(std::span<const float> heat, std::uint32_t n_experts, std::span<const card_room> cards,
                                                const layer_costs& costs, std::span<const layer_range> otherwise) {
  EBB_ASSERT(costs.slot_bytes > 0);
  EBB_ASSERT(otherwise.size() == cards.size());
  EBB_ASSERT(heat.size() % n_experts == 0);
  const auto n_layers = static_cast<std::uint32_t>(heat.size() / n_experts);
  EBB_ASSERT(cards.size() <= n_layers);
  const double all = std::accumulate(heat.begin(), heat.end(), 0.0);
  std::vector<std::uint32_t> begins;
  for (const layer_range& range : otherwise) begins.push_back(range.begin);
  if (all <= 0) return begins;

  const auto n_cards = static_cast<std::uint32_t>(cards.size());
  // [card][end]: the best score of the layers before `end` on the cards up to this one, and where this one then begins.
  std::vector<std::vector<double>> best(n_cards, std::vector<double>(n_layers + 1, nothing));
  std::vector<std::vector<std::uint32_t>> from(n_cards, std::vector<std::uint32_t>(n_layers + 1, 0));
  for (std::uint32_t card = 0; card < n_cards; ++card) {
    for (std::uint32_t begin = card; begin < (card == 0 ? 1 : n_layers); ++begin) {
      const double before = card == 0 ? 0 : best[card - 1][begin];
      if (before == nothing) continue;
      const double off = std::abs(static_cast<double>(begin) - otherwise[card].begin) / n_layers / 1000;
      for (std::uint32_t end = begin + 1; end + (n_cards - card - 1) <= n_layers; ++end) {
        const auto heats = heat.subspan(std::size_t{begin} * n_experts, std::size_t{end - begin} * n_experts);
        const double score = before - off + hottest({heats.begin(), heats.end()}, slots_of(cards[card], costs, end - begin)) / all;
        if (score <= best[card][end]) continue;
        best[card][end] = score;
        from[card][end] = begin;
      }
    }
  }
  std::uint32_t end = n_layers;
  for (std::uint32_t card = n_cards; card-- > 0;) {
    begins[card] = from[card][end];
    end = begins[card];
  }
  return begins;
}

}  // namespace ebb::tools

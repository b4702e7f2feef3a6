#include "actors/expert_map.hpp"
#include "config/assert.hpp"
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace ebb::actors {
namespace {

std::string hex_of(const std::vector<std::uint8_t>& bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    out += digits[byte / 16];
    out += digits[byte % 16];
  }
  return out;
}

std::vector<std::uint8_t> resident_bits(const expert_cache& cache) {
  const expert_range& experts = cache.experts();
  std::vector<std::uint8_t> bits((experts.count() + 7) / 8);
  for (std::uint32_t number = 0; number < experts.count(); ++number) {
    if (cache.slot_of(experts.at(number))) bits[number / 8] |= static_cast<std::uint8_t>(1u << (number % 8));
  }
  return bits;
}

// What was used at all is told from what was not.
std::uint8_t share_of(float heat, float hottest) {
  if (!(heat > 0)) return 0;
  return static_cast<std::uint8_t>(std::clamp(std::lround(255 * heat / hottest), 1L, 255L));
}

}  // namespace

bus::expert_map map_of(card_id card, const expert_cache& cache, const expert_heat& heat) {
  const expert_range& experts = cache.experts();
  EBB_ASSERT(heat.experts() == experts);
  const std::vector<float> heats = heat.heats();
  const float hottest = heats.empty() ? 0 : *std::max_element(heats.begin(), heats.end());
  std::vector<std::uint8_t> shares(heats.size());
  std::transform(heats.begin(), heats.end(), shares.begin(), [&](float each) { return share_of(each, hottest); });
  return {.device = card.value,
          .layer_begin = experts.layer_begin,
          .layer_end = experts.layer_end,
          .experts = experts.n_experts,
          .resident = hex_of(resident_bits(cache)),
          .heat = hex_of(shares),
          .heat_max = hottest};
}

}  // namespace ebb::actors

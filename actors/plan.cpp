#include "actors/plan.hpp"
#include <algorithm>

namespace ebb::actors {

bus::plan_report together(std::vector<bus::card_plan> cards) {
  std::sort(cards.begin(), cards.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
  bus::plan_report all;
  double layers = 0, ms = 0, ms_now = 0;
  bool measured = !cards.empty();
  for (const bus::card_plan& card : cards) {
    layers += card.layers;
    all.hit_rate += card.hit_rate * card.layers;
    all.hit_rate_now += card.hit_rate_now * card.layers;
    ms += card.ms_per_token;
    ms_now += card.ms_per_token_now;
    measured = measured && card.ms_per_token > 0 && card.ms_per_token_now > 0;
  }
  if (layers > 0) {
    all.hit_rate /= layers;
    all.hit_rate_now /= layers;
  }
  if (measured) {
    all.tokens_per_s = 1000 / ms;
    all.tokens_per_s_now = 1000 / ms_now;
  }
  all.cards = std::move(cards);
  return all;
}

void add_handover(bus::plan_report& plan, double ms) {
  for (double* tokens_per_s : {&plan.tokens_per_s, &plan.tokens_per_s_now}) {
    if (*tokens_per_s > 0) *tokens_per_s = 1000 / (1000 / *tokens_per_s + ms);
  }
}

}  // namespace ebb::actors

#include "tools/heat_split.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

using namespace ebb::tools;

namespace {

constexpr std::uint32_t n_experts = 8;
constexpr layer_costs costs{.dense_bytes = 2, .slot_bytes = 10};
using begins = std::vector<std::uint32_t>;

// A layer that picks so many of its experts, all of them as often, and the others never.
std::vector<float> layer_of(std::uint32_t n_picked) {
  std::vector<float> heat(n_experts, 0.0f);
  std::fill_n(heat.begin(), n_picked, 8.0f / static_cast<float>(n_picked));
  return heat;
}

std::vector<float> model_of(const std::vector<std::uint32_t>& n_picked) {
  std::vector<float> heat;
  for (const std::uint32_t n : n_picked) {
    const auto layer = layer_of(n);
    heat.insert(heat.end(), layer.begin(), layer.end());
  }
  return heat;
}

begins split(const std::vector<float>& heat, const std::vector<card_room>& cards) {
  const auto n_layers = static_cast<std::uint32_t>(heat.size() / n_experts);
  return first_layers_by_heat(heat, n_experts, cards, costs, *split_layers(n_layers, cards.size(), {}));
}

card_room room_for(std::uint64_t slots, std::uint64_t layers = 0) { return {.free_bytes = slots * costs.slot_bytes + layers * costs.dense_bytes}; }

}  // namespace

TEST_CASE("where everything fits, or nothing was hot, layers are shared out as without a profile") {
  CHECK(split(model_of({8, 8, 8, 1, 1, 1}), {room_for(1000), room_for(1000)}) == begins{0, 3});
  CHECK(split(std::vector<float>(6 * n_experts, 0.0f), {room_for(3), room_for(3)}) == begins{0, 3});
}

TEST_CASE("layers whose picks spread get more slots than those that pick the same few") {
  // 16 experts are hot in two layers, and one in each of the four others: cards of 16 and 4 slots hold all of them only this way.
  CHECK(split(model_of({8, 8, 1, 1, 1, 1}), {room_for(16, 2), room_for(4, 4)}) == begins{0, 2});
  CHECK(split(model_of({1, 1, 1, 1, 8, 8}), {room_for(4, 4), room_for(16, 2)}) == begins{0, 4});
}

TEST_CASE("a card without room for a cache still gets a layer, and the others the rest") {
  CHECK(split(model_of({4, 4, 4, 4}), {room_for(0), room_for(100)}) == begins{0, 1});
  CHECK(split(model_of({4, 4, 4, 4}), {room_for(100), room_for(0), room_for(0)}) == begins{0, 2, 3});
}

TEST_CASE("what a card needs beside its layers is not room for experts") {
  const auto heat = model_of({4, 4, 4, 4});
  CHECK(split(heat, {room_for(8, 4), room_for(8, 4)}) == begins{0, 2});
  card_room with_head = room_for(8, 4);
  with_head.fixed_bytes = 4 * costs.slot_bytes;
  CHECK(split(heat, {room_for(12, 4), with_head}) == begins{0, 3});
}

TEST_CASE("no other split of a small model holds more of the heat") {
  std::vector<float> heat(7 * n_experts);
  std::uint32_t random = 1;
  for (float& each : heat) each = static_cast<float>((random = random * 1664525u + 1013904223u) >> 20);
  const std::vector<card_room> cards{room_for(9, 3), room_for(5, 3), room_for(14, 3)};
  const auto held = [&](const begins& first) {
    double sum = 0;
    for (std::size_t card = 0; card < 3; ++card) {
      const std::uint32_t begin = first[card], end = card == 2 ? 7 : first[card + 1];
      std::vector<float> of_card(heat.begin() + begin * n_experts, heat.begin() + end * n_experts);
      std::sort(of_card.rbegin(), of_card.rend());
      const std::uint64_t slots = (cards[card].free_bytes - (end - begin) * costs.dense_bytes) / costs.slot_bytes;
      sum += std::accumulate(of_card.begin(), of_card.begin() + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(slots), std::ssize(of_card)), 0.0);
    }
    return sum;
  };
  const double all = std::accumulate(heat.begin(), heat.end(), 0.0);
  const double found = held(split(heat, cards));
  for (std::uint32_t second = 1; second < 6; ++second) {
    for (std::uint32_t third = second + 1; third < 7; ++third) CHECK(held({0, second, third}) <= found + all / 500);
  }
}

#include "tools/open_gpus.hpp"
#include <algorithm>
#include <map>

namespace ebb::tools {
namespace {

constexpr std::uint64_t mib = 1u << 20;

std::uint32_t n_layers(const actors::card_options& card) { return card.layer_end - card.layer_begin; }

result<void> share(std::span<actors::card_options* const> together) {
  const auto now = together.front()->gpu->memory();
  if (!now) return fail(now.error());
  std::uint64_t layers = 0, reserve = 0;
  for (const actors::card_options* card : together) {
    layers += n_layers(*card);
    reserve = std::max(reserve, card->reserve_mib * mib);
  }
  const std::uint64_t room = now->free_bytes - std::min(now->free_bytes, reserve);
  for (actors::card_options* card : together) card->card_bytes = card->reserve_mib * mib + room * n_layers(*card) / layers;
  return {};
}

}  // namespace

result<std::vector<std::shared_ptr<kernels::gpu>>> open_gpus(const chosen_cards& chosen) {
  std::map<std::uint32_t, std::shared_ptr<kernels::gpu>> opened;
  std::vector<std::shared_ptr<kernels::gpu>> of_cards;
  for (const card_choice& card : chosen.cards) {
    if (card.kind == card_kind::host) {
      of_cards.push_back(nullptr);
      continue;
    }
    auto& gpu = opened[card.gpu];
    if (!gpu) {
      auto fresh = chosen.driver->open(card.gpu);
      if (!fresh) return fail(fresh.error().code, "setting `cards`: \"cuda:" + std::to_string(card.gpu) + "\": " + fresh.error().text);
      gpu = std::move(*fresh);
    }
    of_cards.push_back(gpu);
  }
  return of_cards;
}

result<std::vector<kernels::gpu_description>> read_by_context(std::vector<kernels::gpu_description> gpus, std::span<const std::shared_ptr<kernels::gpu>> opened) {
  for (kernels::gpu_description& about : gpus) {
    const auto on = std::find_if(opened.begin(), opened.end(), [&](const auto& gpu) { return gpu && gpu->about().number == about.number; });
    if (about.free_bytes || on == opened.end()) continue;
    const auto now = (*on)->memory();
    if (!now) return fail(now.error());
    about.free_bytes = now->free_bytes;
  }
  return gpus;
}

result<void> share_gpus(std::span<actors::card_options> cards) {
  std::map<const kernels::gpu*, std::vector<actors::card_options*>> on;
  for (actors::card_options& card : cards) {
    if (card.gpu) on[card.gpu.get()].push_back(&card);
  }
  for (const auto& [gpu, together] : on) {
    if (together.size() < 2) continue;
    if (auto shared = share(together); !shared) return shared;
  }
  return {};
}

}  // namespace ebb::tools

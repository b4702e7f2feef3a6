// tools/open_gpus.hpp: the GPUs of a run, each opened once however many cards are on it, and shared out between those.
#pragma once
#include "actors/card.hpp"
#include "tools/gpu_choice.hpp"
#include <span>

namespace ebb::tools {

// [cards]: the card's GPU, with a context on it; null: a host card. Errors: those of gpu_driver::open, naming the setting.
result<std::vector<std::shared_ptr<kernels::gpu>>> open_gpus(const chosen_cards& chosen);

// What is free on those whose figure is not known, by the driver itself, now that there is a context on them: its own memory is not counted
// as free any more. Errors: card_lost.
result<std::vector<kernels::gpu_description>> read_by_context(std::vector<kernels::gpu_description> gpus, std::span<const std::shared_ptr<kernels::gpu>> opened);

// Bounds the cards that are on a GPU together: what is free there now, less the largest of their reserves, is shared out by their
// layers. A card that has its GPU to itself takes what it finds. Errors: those of the GPU's free figure.
result<void> share_gpus(std::span<actors::card_options> cards);

}  // namespace ebb::tools

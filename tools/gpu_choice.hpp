// tools/gpu_choice.hpp: which devices a run uses, by the setting `cards` and by what the driver lists, and the wait for room on them.
//
// Nothing here takes a context on a GPU: that alone takes some hundred MiB.
// Without NVML what is free is known only with a context, so the wait is then made after (tools/engine.cpp), with the same words.
#pragma once
#include "actors/clock.hpp"
#include "config/settings.hpp"
#include "kernels/gpu.hpp"
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace ebb::tools {

using gpu_loader = std::function<result<std::shared_ptr<kernels::gpu_driver>>()>;

struct chosen_cards {
  std::vector<card_choice> cards;               // of the run, "auto" resolved; not empty
  std::shared_ptr<kernels::gpu_driver> driver;  // null: no card is a GPU
  std::optional<error> warning;                 // for the user: why none is, though a module, a driver or a GPU is here
};

// "auto" is every GPU that the driver lists, or one host card: without a word where there is no module, no driver or no GPU, with a warning
// where one is here and cannot be used.
// Errors: unknown_device, refused (a GPU is named and there is no driver, or none that works), those of the driver.
result<chosen_cards> choose_cards(const std::vector<card_choice>& wanted, const gpu_loader& load);

struct free_vram_wait {
  std::uint32_t min_free_mib = 0;                       // 0: the GPUs are read once, and nothing is waited for
  actors::clock_fn now;
  std::function<void(std::chrono::milliseconds)> pause;
  std::function<void(const std::string&)> tell;         // whenever other GPUs are waited for than before
  std::stop_token stop;
};

using gpu_reader = std::function<result<std::vector<kernels::gpu_description>>()>;

// Reads the GPUs until each one of `cards` has so much free; one whose figure is not known counts as free. Gives the last reading.
// Errors: short_of (after limits::free_vram_wait; names those that are too full), cancelled, those of the reading.
result<std::vector<kernels::gpu_description>> wait_for_free_vram(const gpu_reader& read, std::span<const card_choice> cards, const free_vram_wait& how);

// How much of the model each card should have, by what is free on its GPU, which cards on the same one share; empty where some card's
// figure is not known, as a host card's.
std::vector<double> shares_of(std::span<const card_choice> cards, std::span<const kernels::gpu_description> gpus);

}  // namespace ebb::tools

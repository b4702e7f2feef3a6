#include "tools/gpu_choice.hpp"
#include "config/limits.hpp"
#include <algorithm>

namespace ebb::tools {
namespace {

constexpr std::uint64_t mib = 1u << 20;

std::string name_of(std::uint32_t gpu) { return "cuda:" + std::to_string(gpu); }

bool on_gpu(const card_choice& card, std::uint32_t gpu) { return card.kind == card_kind::cuda && card.gpu == gpu; }

std::vector<kernels::gpu_description> too_full(std::span<const card_choice> cards, const std::vector<kernels::gpu_description>& gpus,
                                               std::uint64_t wanted_bytes) {
  std::vector<kernels::gpu_description> full;
  std::copy_if(gpus.begin(), gpus.end(), std::back_inserter(full), [&](const kernels::gpu_description& gpu) {
    const bool is_ours = std::any_of(cards.begin(), cards.end(), [&](const card_choice& card) { return on_gpu(card, gpu.number); });
    return is_ours && gpu.free_bytes.value_or(wanted_bytes) < wanted_bytes;
  });
  return full;
}

std::string describe(const std::vector<kernels::gpu_description>& full, std::uint32_t wanted_mib) {
  std::string text = "setting `min_free_vram_mib`: " + std::to_string(wanted_mib) + " MiB must be free on every GPU, and";
  for (const kernels::gpu_description& gpu : full) {
    text += (&gpu == &full.front() ? " " : ", ") + name_of(gpu.number) + " (" + gpu.name + ") has " + std::to_string(gpu.free_bytes.value_or(0) / mib) + " MiB";
  }
  return text;
}

std::vector<std::uint32_t> numbers_of(const std::vector<kernels::gpu_description>& gpus) {
  std::vector<std::uint32_t> numbers;
  for (const kernels::gpu_description& gpu : gpus) numbers.push_back(gpu.number);
  return numbers;
}

// Where nothing is here a host card is what the user means; where something is and does not work, the user learns why.
result<chosen_cards> host_card_for_want_of(const error& why) {
  chosen_cards chosen{{card_choice{}}, nullptr, std::nullopt};
  if (why.code == errc::unknown_device) return chosen;
  if (why.code != errc::refused) return fail(why);
  chosen.warning = error{why.code, "setting `cards`: \"auto\" takes a host card, since no GPU can be used: " + why.text +
                                       "; to run without a GPU on purpose set cards = [\"host\"]"};
  return chosen;
}

result<chosen_cards> every_gpu(const gpu_loader& load) {
  auto driver = load();
  if (!driver) return host_card_for_want_of(driver.error());
  const auto gpus = (*driver)->list();
  if (!gpus) return host_card_for_want_of(gpus.error());
  if (gpus->empty()) return host_card_for_want_of({errc::unknown_device, "the driver lists no GPU"});
  chosen_cards chosen{{}, std::move(*driver), std::nullopt};
  for (const kernels::gpu_description& gpu : *gpus) chosen.cards.push_back({card_kind::cuda, gpu.number});
  return chosen;
}

}  // namespace

result<chosen_cards> choose_cards(const std::vector<card_choice>& wanted, const gpu_loader& load) {
  if (wanted.empty()) return every_gpu(load);
  const auto first_gpu = std::find_if(wanted.begin(), wanted.end(), [](const card_choice& card) { return card.kind == card_kind::cuda; });
  if (first_gpu == wanted.end()) return chosen_cards{wanted, nullptr, std::nullopt};
  auto driver = load();
  if (!driver) {
    return fail(driver.error().code, "setting `cards`: \"" + name_of(first_gpu->gpu) + "\" cannot be used: " + driver.error().text);
  }
  return chosen_cards{wanted, std::move(*driver), std::nullopt};
}

result<std::vector<kernels::gpu_description>> wait_for_free_vram(const gpu_reader& read, std::span<const card_choice> cards, const free_vram_wait& how) {
  const auto until = how.now() + limits::free_vram_wait;
  std::vector<std::uint32_t> told;
  for (;;) {
    auto gpus = read();
    if (!gpus) return gpus;
    const auto full = too_full(cards, *gpus, how.min_free_mib * mib);
    if (full.empty()) return gpus;
    const std::string text = describe(full, how.min_free_mib);
    if (how.now() >= until) {
      return fail(errc::short_of, text + ", after a wait of " + std::to_string(limits::free_vram_wait.count()) +
                                      " s; end what else runs there, or set less");
    }
    if (std::exchange(told, numbers_of(full)) != numbers_of(full)) how.tell(text + "; waiting");
    if (how.stop.stop_requested()) return fail(errc::cancelled, "told to stop while it waited: " + text);
    how.pause(limits::free_vram_interval);
  }
}

std::vector<double> shares_of(std::span<const card_choice> cards, std::span<const kernels::gpu_description> gpus) {
  std::vector<double> shares;
  for (const card_choice& card : cards) {
    const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const auto& each) { return on_gpu(card, each.number); });
    if (gpu == gpus.end() || gpu->free_bytes.value_or(0) == 0) return {};
    const auto neighbours = std::count_if(cards.begin(), cards.end(), [&](const card_choice& other) { return on_gpu(other, card.gpu); });
    shares.push_back(static_cast<double>(*gpu->free_bytes) / static_cast<double>(neighbours));
  }
  return shares;
}

}  // namespace ebb::tools

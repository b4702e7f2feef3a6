#include "actors/watcher_actor.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <unordered_map>

namespace ebb::actors {
namespace {

using watcher_pointer = watcher_actor::stateful_pointer<watcher_state>;

constexpr double mib = 1u << 20;
constexpr double no_ceiling = -1;  // of the message `yield`

double mark_of(const watcher_options& options, const cache_size& size) {
  return options.min_free_mib > 0 ? options.min_free_mib : std::max<double>(size.reserve_mib, limits::yield_mark_mib_min);
}

// Gives what this card has been told to give.
double look_at(watcher_pointer self, card_id card, const cache_size& size, double given_mib) {
  auto& state = self->state;
  const auto free_bytes = state.options->free_bytes(card);
  if (!free_bytes) return 0;  // without a figure nothing is decided; the next tick reads again
  const double free_mib = static_cast<double>(*free_bytes) / mib + given_mib, mark_mib = mark_of(*state.options, size);
  yield_policy& policy = state.policies[card.value];
  const bool gave_way = policy.gives_way();
  const auto order = policy.take({state.options->now(), free_mib, size.mapped_mib, size.full_mib, mark_mib});
  if (!order) return 0;
  self->send(state.ledger, yield_atom::value, card, order->ceiling_mib.value_or(no_ceiling));
  if (policy.gives_way() != gave_way) state.options->tell(bus::pressure{card.value, policy.gives_way(), free_mib, mark_mib});
  return std::max(0.0, size.mapped_mib - order->ceiling_mib.value_or(size.mapped_mib));
}

void look(watcher_pointer self) {
  std::unordered_map<std::uint32_t, double> given_mib;  // by memory
  const auto& memories = self->state.options->memories;
  for (std::uint32_t number = 0; number < self->state.cards.size(); ++number) {
    double& given = given_mib[memories.empty() ? number : memories[number]];
    if (const auto& size = self->state.sizes[number]) given += look_at(self, {number}, *size, given);
  }
}

void ask_sizes(watcher_pointer self) {
  auto& state = self->state;
  state.missing = state.cards.size();
  state.sizes.assign(state.cards.size(), std::nullopt);
  const auto answered = [self] {
    if (--self->state.missing == 0) look(self);
  };
  for (std::uint32_t number = 0; number < state.cards.size(); ++number) {
    self->request(state.cards[number], limits::status_timeout, size_atom::value)
        .then(
            [self, number, answered](const cache_size& size) {
              self->state.sizes[number] = size;
              answered();
            },
            [answered](const caf::error&) { answered(); });  // not loaded yet, or lost
  }
}

void set_tick(watcher_pointer self) { self->delayed_send(self, limits::watch_interval, tick_atom::value); }

}  // namespace

watcher_actor::behavior_type watcher_behavior(watcher_pointer self, std::vector<card_actor> cards, ledger_actor ledger, watcher_options options) {
  auto& state = self->state;
  EBB_ASSERT(options.ceilings_mib.empty() || options.ceilings_mib.size() == cards.size());
  EBB_ASSERT(options.memories.empty() || options.memories.size() == cards.size());
  for (const auto& ceiling_mib : options.ceilings_mib) state.policies.emplace_back(ceiling_mib);
  state.policies.resize(cards.size());
  state.cards = std::move(cards);
  state.ledger = std::move(ledger);
  state.options.emplace(std::move(options));
  set_tick(self);
  return {
      [self](tick_atom) {
        set_tick(self);
        if (self->state.missing == 0) ask_sizes(self);
      },
  };
}

}  // namespace ebb::actors

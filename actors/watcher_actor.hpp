// actors/watcher_actor.hpp: looks at the free memory of the cards, off the hot path, and lets the ledger give way to other programs.
//
//   message   answer
//   tick      -        to itself, every limits::watch_interval: read, decide, tell the ledger `yield`
//
// A card is asked for its size by its own books, never for its device's figure: that is read here. A tick that finds the last
// one still waiting for a card does nothing, so questions never pile up behind a long window.
//
// Owns:    a yield_policy a card, a plain class that is tested alone.
// Thread:  detached in the daemon, since reading the figure may block.
#pragma once
#include "actors/ledger_actor.hpp"
#include "actors/yield_policy.hpp"
#include <vector>

namespace ebb::actors {

using watcher_actor = caf::typed_actor<caf::reacts_to<tick_atom>>;

struct watcher_options {
  clock_fn now;
  std::function<result<std::uint64_t>(card_id)> free_bytes;  // by the device's own figure, for anybody
  std::uint32_t min_free_mib = 0;                            // the mark; 0: the reserve in force, and limits::yield_mark_mib_min at least
  std::vector<std::optional<double>> ceilings_mib;           // [cards], that an earlier watcher had ordered; empty: none
  std::vector<std::uint32_t> memories;  // [cards]: a number for the memory each lies in: what one gives is free for the next in it;
                                        // empty: each has its own
  event_sink tell;
};

struct watcher_state {
  std::vector<card_actor> cards;
  ledger_actor ledger;
  std::optional<watcher_options> options;
  std::vector<yield_policy> policies;                // [cards]
  std::vector<std::optional<cache_size>> sizes;      // [cards], of the tick under way
  std::size_t missing = 0;                           // answers of the tick under way
};

watcher_actor::behavior_type watcher_behavior(watcher_actor::stateful_pointer<watcher_state> self, std::vector<card_actor> cards, ledger_actor ledger,
                                              watcher_options options);

}  // namespace ebb::actors

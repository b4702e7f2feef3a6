// actors/ledger_actor.hpp: the only writer of how much must be free on which card, and of what is lent to whom.
//
//   message                     answer          errors
//   vram, bus::vram             vram_report     unknown_device; what a card's resize reports. With several cards: the text says which
//                                               card failed and that the others hold what was asked
//   lease, bus::lease, id       lease_report    unknown_device, unknown_lease, busy; short_of: the card cannot free that much, or
//                                               others wait for it, nothing has changed; file_unwritable: nothing has changed
//   plan, bus::plan             plan_report     unknown_device
//   left, lease id              -               whoever acquired it left before the answer: it ends
//   yield, card, ceiling_mib    -               from the watcher: the cache may map so much at most; negative: it may grow again
//   tick                        -               to itself: look for leases that have ended and memory that was let go
//
// What changes memory is carried out one thing after the other, each on all its cards at the same time, so that two clients never
// mix; but cards that share a memory take their turns within it, so that a free figure is never used twice. A lease is answered when its memory is free and it is written down.
//
// Owns:    ledger, a plain class that knows no CAF, no clock and no device, and is tested alone.
// Thread:  detached in the daemon, since it writes a small file at each change; handlers never touch a device.
#pragma once
#include "actors/caf.hpp"
#include "actors/card_handle.hpp"
#include "actors/event_sink.hpp"
#include "actors/ledger.hpp"
#include "actors/process_watch.hpp"
#include <deque>
#include <optional>

namespace ebb::actors {

using ledger_actor = caf::typed_actor<caf::replies_to<vram_atom, bus::vram>::with<bus::vram_report>,
                                      caf::replies_to<lease_atom, bus::lease, bus::request_id>::with<bus::lease_report>,
                                      caf::replies_to<plan_atom, bus::plan>::with<bus::plan_report>,
                                      caf::reacts_to<left_atom, std::uint64_t>, caf::reacts_to<yield_atom, card_id, double>,
                                      caf::reacts_to<tick_atom>>;

struct ledger_options {
  ledger book;
  clock_fn now;
  std::function<std::uint64_t()> unix_ms;                             // for what outlives the process
  std::function<result<void>(const bus::ledger_state&)> write_down;   // returns when it is safe on disk
  process_watch processes;
  event_sink tell;
  std::vector<std::uint32_t> memories = {};  // [cards]: equal numbers share a free figure, as cards on one GPU do; empty: each has its own
  bool contexts = true;  // a program that uses a lease first needs a CUDA context, which costs memory; on host cards it needs none
};

struct ledger_state {
  std::optional<ledger_options> options;
  std::vector<card_actor> cards;

  // What waits to be done; the first is under way. Each calls next() exactly once.
  std::deque<std::function<void()>> operations;

  struct acquiring {
    bus::lease asked;
    bus::request_id id;
    caf::typed_response_promise<bus::lease_report> promise;
    time_point until;              // it may wait for room
    std::uint64_t number;          // the older goes first
    std::uint64_t pid_began = 0;   // of the process that it names
  };
  std::deque<acquiring> waiting_for_room;  // oldest first
  std::uint64_t acquires_begun = 0;

  // Cards whose cache may grow back as its neighbours let go: until cache and free memory together are what they were.
  struct regrowth {
    double together_mib = 0;  // when the first lease was given
    bool under_way = false;   // an operation for it waits
  };
  std::vector<std::optional<regrowth>> regrowths;  // [cards]
  std::vector<double> together_mib;                // [cards], when the leases now held began
  std::vector<double> cache_told_mib;              // [cards], in the newest `resized` event
  std::uint64_t revision_written = 0;              // of the ledger, as it is on disk
  bool tick_set = false;
};

ledger_actor::behavior_type ledger_behavior(ledger_actor::stateful_pointer<ledger_state> self, std::vector<card_actor> cards, ledger_options options);

}  // namespace ebb::actors

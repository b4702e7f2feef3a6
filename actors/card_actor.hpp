// actors/card_actor.hpp: the only writer of one device: its cache, its table, its keys and values.
//
//   message                  answer          errors
//   load                     card_info       those of card::make and of the arena; it may be sent again
//   open, session_opening    none            those of model::completion::make
//   close, session, place    -
//   cancel, session_id       picked_token    unknown_session: it has ended
//   run, window              window_result   unknown_session, out_of_memory, card_lost. Of the last window, where the card repeats; for each one
//                                            before it the sender gets `ran, window_result`
//   halt                     -               a run that repeats ends with the window under way
//   resize, resize_goal      resize_outcome  refused, busy, short_of, out_of_memory, card_lost: nothing changed, or as the text says
//   plan, resize_goal        card_plan       what a resize would come to; changes nothing
//   adopt, version           -               a fast path was built for this version of the table
//   info                     card_info       those of the device's free figure
//   size                     cache_size      by its own books: the device is not asked
//   heat                     stage_heat
//
// The mailbox is the fence: windows and steps of a resize are messages, run one at a time on this actor's own thread. A card that
// repeats windows, or resizes in steps, sends itself the next one, so whatever has come in meanwhile goes first.
//
// A window that is answered with card_lost is the last: the actor ends, with that error as its reason.
//
// Owns:    a card, a plain class that knows no CAF.
// Thread:  detached in the daemon; the caller chooses. The card is made and dies on it.
#pragma once
#include "actors/batcher.hpp"
#include "actors/caf.hpp"
#include "actors/card.hpp"
#include "actors/card_handle.hpp"
#include "actors/residency_actor.hpp"

namespace ebb::actors {

using card_factory = std::function<result<std::unique_ptr<card>>()>;

struct card_state {
  card_state() = default;
  card_state(const card_state&) = delete;
  card_state& operator=(const card_state&) = delete;
  ~card_state();  // CAF does not report a promise that is dropped, so whoever waits is told here that the card has ended

  std::unique_ptr<card> device;
  residency_actor residency;
  std::uint64_t told_version = 0;  // of the last residency_change sent

  // The run under way, if any.
  struct run {
    window next;
    caf::typed_response_promise<window_result> promise;
    caf::strong_actor_ptr listener;
    bool halted = false;
  };
  std::optional<run> running;

  // The resize under way, if any; exactly one of the promises is set.
  std::optional<caf::typed_response_promise<resize_outcome>> resizing;
  std::optional<caf::typed_response_promise<bus::card_info>> loading;
};

card_actor::behavior_type card_behavior(card_actor::stateful_pointer<card_state> self, card_factory make, residency_actor residency);

}  // namespace ebb::actors

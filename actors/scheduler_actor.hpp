// actors/scheduler_actor.hpp: turns sessions into windows and windows into tokens.
//
//   message                         answer            errors
//   submit, session_id, order       -                 the session's end says what went wrong
//   cancel, session_id              -                 likewise; a session that has ended is left alone
//   ran, window_result              -                 (from a card that repeats windows)
//   info                            scheduler_state
//   stop                            scheduler_state   when the windows under way have ended: every session is failed with
//                                                     `cancelled`, and those that come are refused
//
// To the listener: token, session_token for each token, then end, session_end, exactly one a session.
//
// A window passes through the cards in order. As many are under way at a time as options say, one a device, so that each device has work:
// while the last card has one window, the first has the next one, of other sessions. A card runs its windows in the order in which they
// began. A session joins when a window begins, and leaves when none that is under way has rows of it; a card that repeats windows on its
// own is told to halt for that. A window that fails fails the sessions that are running, once the other windows have ended; a card that
// is gone refuses those that come.
//
// Owns:    batcher, a plain class that knows no CAF, no clock and no device, and is tested alone.
// Thread:  scheduled; handlers never block and never touch a device.
#pragma once
#include "actors/batcher.hpp"
#include "actors/caf.hpp"
#include "actors/card_handle.hpp"
#include "actors/event_sink.hpp"
#include "actors/window_cost.hpp"
#include <map>

namespace ebb::actors {

using session_listener = caf::typed_actor<caf::reacts_to<token_atom, session_token>, caf::reacts_to<end_atom, session_end>>;

using scheduler_actor = caf::typed_actor<
    caf::reacts_to<submit_atom, session_listener, session_id, std::shared_ptr<const session_order>>,
    caf::reacts_to<cancel_atom, session_id>,
    caf::reacts_to<ran_atom, window_result>,
    caf::replies_to<info_atom>::with<scheduler_state>,
    caf::replies_to<stop_atom>::with<scheduler_state>>;

struct scheduler_options {
  std::uint32_t places = 1;
  std::uint32_t repeat_max = 0;  // windows that a card alone may run of its own accord
  clock_fn now;
  event_sink tell = no_events();
  prompt_chunk chunk = {};
  std::uint32_t windows_max = 1;  // under way at a time; of one card never more than one
};

struct scheduler_state_data {
  struct pass {
    window what;
    double stages_ms = 0;  // of its stages so far
  };

  struct departure {
    session_id session;
    std::optional<error> failure;  // none: it is cancelled
  };

  std::optional<batcher> sessions;
  std::vector<card_actor> cards;
  scheduler_options options;
  std::unordered_map<session_id, session_listener> listeners;
  std::map<std::uint64_t, pass> under_way;  // by the window's number
  std::vector<departure> departures;        // once those sessions are in no window under way
  bool halt_sent = false;
  std::optional<time_point> decoded_at;  // the last window, if it was of one row and nothing but its work came since
  window_cost handover;                  // what a token takes beyond its stages
  std::optional<error> failed;           // of a window: who runs is told when those under way have ended
  std::optional<error> lost;             // why no session can run any more
  std::optional<caf::typed_response_promise<scheduler_state>> stopping;
};

scheduler_actor::behavior_type scheduler_behavior(scheduler_actor::stateful_pointer<scheduler_state_data> self, std::vector<card_actor> cards,
                                                  scheduler_options options);

}  // namespace ebb::actors

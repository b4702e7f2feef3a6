// actors/caf.hpp: the one door to CAF: its headers, the atoms of our protocol and the way our errors pass through it.
//
// What a newer CAF would do otherwise is kept to this file. Messages are the plain values of actors/messages.hpp; they stay within
// one process, so none needs to be serialised and each is only declared to be allowed in a message.
#pragma once
#include "actors/messages.hpp"
#include "config/result.hpp"
#include <caf/all.hpp>
#include <string>

namespace ebb::actors {

using load_atom = caf::atom_constant<caf::atom("load")>;      // take the device, fill the cache
using open_atom = caf::atom_constant<caf::atom("open")>;      // a session begins
using close_atom = caf::atom_constant<caf::atom("close")>;    // a session's place is free again
using cancel_atom = caf::atom_constant<caf::atom("cancel")>;  // a session is to end
using run_atom = caf::atom_constant<caf::atom("run")>;        // a window
using next_atom = caf::atom_constant<caf::atom("next")>;      // to itself: the next window of a run
using halt_atom = caf::atom_constant<caf::atom("halt")>;      // end a run with the window under way
using ran_atom = caf::atom_constant<caf::atom("ran")>;        // a window of a run has ended, the run goes on
using resize_atom = caf::atom_constant<caf::atom("resize")>;  // to a goal
using step_atom = caf::atom_constant<caf::atom("step")>;      // to itself: go on with what is under way
using changed_atom = caf::atom_constant<caf::atom("changed")>;  // experts came or went
using adopt_atom = caf::atom_constant<caf::atom("adopt")>;    // a fast path for a version
using info_atom = caf::atom_constant<caf::atom("info")>;
using heat_atom = caf::atom_constant<caf::atom("heat")>;      // how hot each expert is
using size_atom = caf::atom_constant<caf::atom("size")>;      // of a cache, without asking its device
using save_atom = caf::atom_constant<caf::atom("save")>;      // write down what was learnt
using order_atom = caf::atom_constant<caf::atom("order")>;    // from a request to tokens and settings
using text_atom = caf::atom_constant<caf::atom("text")>;      // to tokens, or back
using map_atom = caf::atom_constant<caf::atom("map")>;        // which experts are in slots
using submit_atom = caf::atom_constant<caf::atom("submit")>;
using token_atom = caf::atom_constant<caf::atom("token")>;
using end_atom = caf::atom_constant<caf::atom("end")>;
using vram_atom = caf::atom_constant<caf::atom("vram")>;
using lease_atom = caf::atom_constant<caf::atom("lease")>;
using plan_atom = caf::atom_constant<caf::atom("plan")>;      // what would it cost
using left_atom = caf::atom_constant<caf::atom("left")>;      // whoever asked is gone
using yield_atom = caf::atom_constant<caf::atom("yield")>;    // to another program, unasked
using tick_atom = caf::atom_constant<caf::atom("tick")>;      // time has passed
using frame_atom = caf::atom_constant<caf::atom("frame")>;    // a request from a client
using gone_atom = caf::atom_constant<caf::atom("gone")>;      // a client has left
using stop_atom = caf::atom_constant<caf::atom("stop")>;      // no new work; end what runs

// Our errors keep their code and text on the way through CAF; an error of CAF's own becomes the code that fits it.
caf::error to_caf(const error& what);
error from_caf(const caf::error& what);

template <class T>
caf::result<T> to_caf(result<T> outcome) {
  if (!outcome) return to_caf(outcome.error());
  return std::move(*outcome);
}
inline caf::result<void> to_caf(const result<void>& outcome) {
  if (!outcome) return to_caf(outcome.error());
  return caf::unit;
}

}  // namespace ebb::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::card_id)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::session_id)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::error)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::session_opening)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::window)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::window_result)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::picked_token)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::residency_change)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::resize_goal)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::resize_outcome)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::cache_size)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::stage_heat)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::session_token)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::session_end)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::scheduler_state)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<const ebb::actors::session_order>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::generate)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::card_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::card_info)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::vram)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::vram_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::cards_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::lease)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::lease_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::plan)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::plan_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::card_plan)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::tokenize)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::tokenized)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::detokenize)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::detokenized)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::expert_map)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::request_id)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::client_id)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::bus::request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::vector<ebb::bus::card_info>)

// actors/gateway_actor.hpp: between the clients and the rest: every request gets exactly one last reply.
//
//   message                       does
//   frame, client_id, request     answers it, now or later, through the sink
//   gone, client_id               ends the client's sessions; what is still under way for it is dropped, also if a client of the
//                                 same name comes meanwhile
//   token, end                    from the scheduler, of a session begun here
//   stop                          answers when everything that came before has been passed on
//
// Owns:    request_book, and which session belongs to which request.
// Thread:  scheduled; handlers never block and never touch a device. The sink is called on it, and must not block either.
#pragma once
#include "actors/caf.hpp"
#include "actors/ledger_actor.hpp"
#include "actors/order_actor.hpp"
#include "actors/request_book.hpp"
#include "actors/scheduler_actor.hpp"
#include "actors/vocabulary_actor.hpp"
#include <functional>
#include <optional>
#include <unordered_map>

namespace ebb::actors {

using gateway_actor = session_listener::extend<caf::reacts_to<frame_atom, bus::client_id, bus::request>,
                                               caf::reacts_to<gone_atom, bus::client_id>,
                                               caf::replies_to<stop_atom>::with<void>>;

// Takes a reply on its way; `text` says that the request came as text.
using reply_sink = std::function<void(const bus::client_id& to, const bus::reply& what, bool text)>;

struct gateway_options {
  bus::status_report about;  // what does not change while the daemon lives; the rest is filled in
  std::shared_ptr<const order_maker> orders;
  reply_sink sink;
  std::function<bus::status_report(bus::status_report)> measure;  // fills in what the process knows: uptime and memory
  std::function<void()> request_taken = [] {};                    // called for each frame, when it has been looked at
  std::function<bus::subscribed()> events;                        // where they come out, and how many there were so far
};

struct gateway_state {
  gateway_options options;
  std::optional<request_book> book;
  scheduler_actor scheduler;
  ledger_actor ledger;
  order_actor orders;
  vocabulary_actor vocabulary;
  std::vector<card_actor> cards;

  // Requests under way by number, and whose they are; bounded by the book. A client that leaves takes its own with it.
  std::unordered_map<std::uint64_t, bus::client_id> under_way;
  std::uint64_t requests_begun = 0;

  struct session {
    std::uint64_t request = 0;
    bus::client_id client;
    bus::request_id id;
    bool stream = true;
    bool submitted = false;  // until then its prompt is being made into tokens, and the scheduler does not know it
    std::string text;  // of the whole answer, for a client that does not stream and for a repeated id
  };
  std::unordered_map<session_id, session> sessions;
  std::uint64_t sessions_begun = 0;
};

gateway_actor::behavior_type gateway_behavior(gateway_actor::stateful_pointer<gateway_state> self, scheduler_actor scheduler,
                                              ledger_actor ledger, std::vector<card_actor> cards, gateway_options options);

}  // namespace ebb::actors

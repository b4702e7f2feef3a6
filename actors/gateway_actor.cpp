#include "actors/gateway_actor.hpp"
#include "actors/plan.hpp"
#include "bus/codec.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <string_view>

namespace ebb::actors {
namespace {

using gateway_pointer = gateway_actor::stateful_pointer<gateway_state>;

// Where a reply goes.
struct address {
  bus::client_id client;
  bus::request_id id;
  bool text = false;
  std::uint64_t request = 0;  // its number
};

// The last reply of a request: remembered, if it is to be, then sent, unless its client has left.
template <class Body>
void finish(gateway_pointer self, const address& to, Body body, bool remember = true) {
  if (self->state.under_way.erase(to.request) == 0) return;
  bus::reply last{to.id, std::move(body)};
  self->state.book->finish(to.client, last, remember);
  self->state.options.sink(to.client, last, to.text);
}

std::size_t sessions_of(const gateway_state& state, const bus::client_id& client) {
  return static_cast<std::size_t>(
      std::count_if(state.sessions.begin(), state.sessions.end(), [&](const auto& known) { return known.second.client == client; }));
}

void submit(gateway_pointer self, session_id session, const std::shared_ptr<const session_order>& order) {
  auto& state = self->state;
  const auto found = state.sessions.find(session);
  if (found == state.sessions.end()) return;  // its client has left, or cancelled it
  found->second.submitted = true;
  self->send(state.scheduler, submit_atom::value, session_listener(gateway_actor(self)), session, order);
}

void take_end(gateway_pointer self, const session_end& last);

void begin(gateway_pointer self, const address& to, const bus::generate& asked) {
  auto& state = self->state;
  if (state.sessions.size() >= limits::sessions_open_max) {
    const error busy{errc::busy, std::to_string(limits::sessions_open_max) + " answers are under way or wait already; try again when some have ended"};
    return finish(self, to, busy);
  }
  if (sessions_of(state, to.client) >= limits::sessions_of_client_max) {
    const error busy{errc::busy, std::to_string(limits::sessions_of_client_max) + " answers for this client are under way or wait already; try again when some have ended"};
    return finish(self, to, busy);
  }
  const session_id session{++state.sessions_begun};
  state.sessions.emplace(session, gateway_state::session{to.request, to.client, to.id, asked.stream, false, {}});
  self->request(state.orders, limits::order_timeout, order_atom::value, asked)
      .then([self, session](const std::shared_ptr<const session_order>& order) { submit(self, session, order); },
            [self, session](caf::error& why) {
              const error failure = from_caf(why);
              take_end(self, {.session = session, .summary = {}, .failure = failure.code, .failure_text = failure.text});
            });
}

void begin(gateway_pointer self, const address& to, const bus::cancel& asked) {
  auto& state = self->state;
  const auto found = std::find_if(state.sessions.begin(), state.sessions.end(), [&](const auto& known) {
    return known.second.client == to.client && known.second.id == asked.target;
  });
  if (found == state.sessions.end()) {
    return finish(self, to, error{errc::unknown_session, "no generate with the id " + to_string(asked.target) + " is under way for this client"});
  }
  finish(self, to, bus::cancelled{});
  if (found->second.submitted) return self->send(state.scheduler, cancel_atom::value, found->first);
  session_end before_it_began{.session = found->first, .summary = {}, .failure = errc::none, .failure_text = {}};
  before_it_began.summary.finish = std::string(model::to_string(model::finish::cancelled));
  take_end(self, before_it_began);
}

void begin(gateway_pointer self, const address& to, const bus::vram& asked) {
  self->request(self->state.ledger, caf::infinite, vram_atom::value, asked)
      .then([self, to](bus::vram_report& report) { finish(self, to, std::move(report)); },
            [self, to](caf::error& why) { finish(self, to, from_caf(why)); });
}

void begin(gateway_pointer self, const address& to, const bus::status&) {
  self->request(self->state.scheduler, limits::status_timeout, info_atom::value)
      .then(
          [self, to](const scheduler_state& now) {
            bus::status_report report = self->state.options.measure(self->state.options.about);
            report.sessions = now.sessions;
            report.sessions_max = now.sessions_max;
            report.waiting = now.waiting;
            report.tokens_generated = now.tokens_generated;
            report.windows = now.windows;
            report.prompt_tokens = now.prompt_tokens;
            report.gap_counts.assign(now.gaps.counts().begin(), now.gaps.counts().end());
            report.gap_ms_sum = now.gaps.sum_ms();
            if (now.lost) report.state = "failed";
            finish(self, to, std::move(report));
          },
          [self, to](caf::error& why) { finish(self, to, from_caf(why)); });
}

// No time-out here or for vram: the ledger answers everything, its own questions to the cards have time-outs, and an answer that came
// after one would be a lease that nobody knows of. Whoever acquired a lease and left before the answer does not know it, and nobody else would ever release it.
// An id that is text names an acquire for the ledger, which knows whether the lease is still held: its answer is not kept here.
void begin(gateway_pointer self, const address& to, const bus::lease& asked) {
  const bool ledger_knows = asked.action == "acquire" && std::holds_alternative<std::string>(to.id.value);
  self->request(self->state.ledger, caf::infinite, lease_atom::value, asked, to.id)
      .then(
          [self, to, ledger_knows, acquired = asked.action == "acquire"](bus::lease_report& report) {
            if (acquired && !self->state.under_way.contains(to.request)) {
              for (const bus::lease_info& each : report.leases) self->send(self->state.ledger, left_atom::value, each.lease_id);
            }
            finish(self, to, std::move(report), !ledger_knows);
          },
          [self, to, ledger_knows](caf::error& why) { finish(self, to, from_caf(why), !ledger_knows); });
}

// The cards know their stages' times, and the scheduler what passes between them.
void begin(gateway_pointer self, const address& to, const bus::plan& asked) {
  const auto failed = [self, to](caf::error& why) { finish(self, to, from_caf(why)); };
  self->request(self->state.ledger, limits::status_timeout, plan_atom::value, asked)
      .then(
          [self, to, failed](const bus::plan_report& stages) {
            self->request(self->state.scheduler, limits::status_timeout, info_atom::value)
                .then(
                    [self, to, stages](const scheduler_state& now) {
                      bus::plan_report whole = stages;
                      add_handover(whole, now.handover_ms);
                      finish(self, to, std::move(whole));
                    },
                    failed);
          },
          failed);
}

void begin(gateway_pointer self, const address& to, const bus::subscribe&) { finish(self, to, self->state.options.events()); }

// Asks every card, one answer or error for all: what they say, in the order of `device_of`, becomes a Report.
template <class Report, class Part, class Atom, class DeviceOf>
void ask_every_card(gateway_pointer self, const address& to, Atom what, DeviceOf device_of, bool remember) {
  struct gathering {
    std::vector<Part> parts;
    std::size_t missing;
    std::optional<error> failure;
  };
  auto all = std::make_shared<gathering>(gathering{{}, self->state.cards.size(), std::nullopt});
  const auto answered = [self, to, all, device_of, remember] {
    if (--all->missing > 0) return;
    if (all->failure) return finish(self, to, *all->failure);
    std::sort(all->parts.begin(), all->parts.end(), [&](const Part& a, const Part& b) { return device_of(a) < device_of(b); });
    finish(self, to, Report{std::move(all->parts)}, remember);
  };
  for (const card_actor& card : self->state.cards) {
    self->request(card, limits::status_timeout, what)
        .then(
            [all, answered](Part& part) {
              all->parts.push_back(std::move(part));
              answered();
            },
            [all, answered](caf::error& why) {
              all->failure = from_caf(why);
              answered();
            });
  }
}

void begin(gateway_pointer self, const address& to, const bus::cards&) {
  ask_every_card<bus::cards_report, bus::card_info>(self, to, info_atom::value, [](const auto& card) { return card.report.device; }, true);
}

// Answers that change nothing and may be large are not kept: asked again, they are made again.
void begin(gateway_pointer self, const address& to, const bus::experts&) {
  ask_every_card<bus::experts_report, bus::expert_map>(self, to, map_atom::value, [](const auto& card) { return card.device; }, false);
}

template <class Answer, class Asked>
void ask_vocabulary(gateway_pointer self, const address& to, const Asked& asked) {
  self->request(self->state.vocabulary, limits::order_timeout, text_atom::value, asked)
      .then([self, to](Answer& answer) { finish(self, to, std::move(answer), false); },
            [self, to](caf::error& why) { finish(self, to, from_caf(why)); });
}

void begin(gateway_pointer self, const address& to, const bus::tokenize& asked) { ask_vocabulary<bus::tokenized>(self, to, asked); }
void begin(gateway_pointer self, const address& to, const bus::detokenize& asked) { ask_vocabulary<bus::detokenized>(self, to, asked); }

// Of what is asked, for telling requests apart that come with the same id.
std::uint64_t fingerprint(const bus::request& asked) {
  return asked.id.empty() ? 0 : std::hash<std::string_view>{}(bus::as_text(bus::encode_request(asked)));
}

void take_request(gateway_pointer self, const bus::client_id& client, const bus::request& asked) {
  auto& state = self->state;
  switch (state.book->begin(client, asked.id, fingerprint(asked))) {
    case request_book::verdict::another: {
      const error taken{errc::bad_value, "the id " + to_string(asked.id) + " belongs to another request of this client; give each request an id of its own"};
      return state.options.sink(client, {asked.id, taken}, asked.text);
    }
    case request_book::verdict::in_progress: return;
    case request_book::verdict::answered: return state.options.sink(client, state.book->answer(client, asked.id), asked.text);
    case request_book::verdict::full: {
      const error busy{errc::busy, std::to_string(limits::in_flight_max) + " requests are under way already; try again when some have ended"};
      return state.options.sink(client, {asked.id, busy}, asked.text);
    }
    case request_book::verdict::fresh: break;
  }
  const address to{client, asked.id, asked.text, ++state.requests_begun};
  state.under_way.emplace(to.request, client);
  std::visit([&](const auto& command) { begin(self, to, command); }, asked.command);
}

void take_token(gateway_pointer self, const session_token& token) {
  auto& state = self->state;
  const auto found = state.sessions.find(token.session);
  if (found == state.sessions.end()) return;  // its client has left
  gateway_state::session& of = found->second;
  of.text += token.text;
  if (!of.stream) return;
  state.options.sink(of.client, {of.id, bus::token{token.index, token.token, token.text, token.logprob, token.top}}, false);
}

void take_end(gateway_pointer self, const session_end& last) {
  auto& state = self->state;
  const auto found = state.sessions.find(last.session);
  if (found == state.sessions.end()) return;
  const gateway_state::session of = std::move(found->second);
  state.sessions.erase(found);
  const address to{of.client, of.id, false, of.request};
  if (last.failure != errc::none) return finish(self, to, error{last.failure, last.failure_text});
  bus::done summary = last.summary;
  summary.text = of.text;
  state.under_way.erase(to.request);
  bus::reply remembered{to.id, summary};
  state.book->finish(to.client, remembered);
  if (of.stream) summary.text.clear();
  state.options.sink(to.client, {to.id, std::move(summary)}, false);
}

void client_left(gateway_pointer self, const bus::client_id& client) {
  auto& state = self->state;
  state.book->forget(client);
  std::erase_if(state.under_way, [&](const auto& known) { return known.second == client; });
  std::erase_if(state.sessions, [&](const auto& known) {
    if (known.second.client != client) return false;
    if (known.second.submitted) self->send(state.scheduler, cancel_atom::value, known.first);
    return true;
  });
}

}  // namespace

gateway_actor::behavior_type gateway_behavior(gateway_pointer self, scheduler_actor scheduler, ledger_actor ledger,
                                              std::vector<card_actor> cards, gateway_options options) {
  auto& state = self->state;
  state.options = std::move(options);
  state.book.emplace(limits::in_flight_max, limits::replies_remembered);
  state.scheduler = std::move(scheduler);
  state.ledger = std::move(ledger);
  state.orders = self->spawn<caf::linked>(order_behavior, state.options.orders);
  state.vocabulary = self->spawn<caf::linked>(vocabulary_behavior, state.options.orders->vocabulary());
  state.cards = std::move(cards);
  return {
      [self](token_atom, const session_token& token) { take_token(self, token); },
      [self](end_atom, const session_end& last) { take_end(self, last); },
      [self](frame_atom, const bus::client_id& client, const bus::request& asked) {
        take_request(self, client, asked);
        self->state.options.request_taken();
      },
      [self](gone_atom, const bus::client_id& client) { client_left(self, client); },
      [](stop_atom) {},
  };
}

}  // namespace ebb::actors

#include "actors/scheduler_actor.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include <algorithm>

namespace ebb::actors {
namespace {

using scheduler_pointer = scheduler_actor::stateful_pointer<scheduler_state_data>;

void look_for_work(scheduler_pointer self);
void batch_changes(scheduler_pointer self);

scheduler_state state_of(const scheduler_state_data& state) {
  const batcher& sessions = *state.sessions;
  return {sessions.running_count(), sessions.places(), sessions.waiting_count(), sessions.tokens(), sessions.windows(), state.lost.has_value(),
          state.handover.ms(0).value_or(0)};
}

void tell_end(scheduler_pointer self, session_end last) {
  auto& state = self->state;
  const auto listener = state.listeners.find(last.session);
  if (listener == state.listeners.end()) return;
  self->send(listener->second, end_atom::value, std::move(last));
  state.listeners.erase(listener);
}

void leave(scheduler_pointer self, session_id session) {
  auto& state = self->state;
  const auto removed = state.sessions->remove(session);
  if (!removed.place) return;
  for (const card_actor& card : state.cards) self->send(card, close_atom::value, session, *removed.place);
}

void fail_session(scheduler_pointer self, session_id session, const error& why) {
  leave(self, session);
  tell_end(self, {.session = session, .summary = {}, .failure = why.code, .failure_text = why.text});
}

void fail_all(scheduler_pointer self, const error& why) {
  for (const session_id session : self->state.sessions->sessions()) fail_session(self, session, why);
}

void end_session(scheduler_pointer self, session_id session, model::finish reason, std::string logits_hash) {
  auto& state = self->state;
  session_end last{.session = session, .summary = state.sessions->summary(session, reason, std::move(logits_hash), state.options.now()),
                   .failure = errc::none, .failure_text = {}};
  leave(self, session);
  tell_end(self, std::move(last));
}

// Asks the last card for the text that an answer still holds, shows it and ends the session.
void cancel_running(scheduler_pointer self, session_id session) {
  auto& state = self->state;
  state.sessions->hold(session);
  self->request(state.cards.back(), limits::status_timeout, cancel_atom::value, session)
      .then(
          [self, session](picked_token& last) {
            auto& data = self->state;
            if (!data.sessions->running(session)) return;
            const auto listener = data.listeners.find(session);
            if (listener != data.listeners.end() && !last.text.empty()) {
              self->send(listener->second, token_atom::value, session_token{session, session_token::held_back, 0, std::move(last.text)});
            }
            end_session(self, session, model::finish::cancelled, std::move(last.logits_hash));
            batch_changes(self);  // its place is free
          },
          [self, session](caf::error& why) {
            fail_session(self, session, from_caf(why));
            batch_changes(self);
          });
}

void cancel_now(scheduler_pointer self, session_id session) {
  auto& state = self->state;
  if (state.sessions->running(session)) return cancel_running(self, session);
  if (!state.sessions->remove(session).known) return;
  bus::done summary;
  summary.finish = std::string(model::to_string(model::finish::cancelled));
  tell_end(self, {.session = session, .summary = std::move(summary), .failure = errc::none, .failure_text = {}});
}

void open_session(scheduler_pointer self, const session_opening& opening) {
  for (const card_actor& card : self->state.cards) {
    self->request(card, limits::window_timeout, open_atom::value, opening)
        .then([] {}, [self, session = opening.session](caf::error& why) { fail_session(self, session, from_caf(why)); });
  }
}

// A plan speaks of a session that decodes alone, so windows of one row are what is learnt from.
void learn_handover(scheduler_state_data& state, const window& done, time_point now) {
  const double stages_ms = std::exchange(state.stages_ms, 0);
  const auto before = std::exchange(state.decoded_at, done.rows.size() == 1 ? std::optional(now) : std::nullopt);
  if (before && state.decoded_at) state.handover.note(0, std::max(0.0, milliseconds_between(*before, now) - stages_ms));
}

void send_tokens(scheduler_pointer self, const window& done, const window_result& answer) {
  auto& state = self->state;
  const time_point now = state.options.now();
  learn_handover(state, done, now);
  for (session_token& token : state.sessions->complete(done, answer, now)) {
    const auto listener = state.listeners.find(token.session);
    if (listener != state.listeners.end()) self->send(listener->second, token_atom::value, std::move(token));
  }
  for (const picked_token& picked : answer.picked) {
    if (picked.finish != model::finish::none) end_session(self, picked.session, picked.finish, picked.logits_hash);
  }
}

void window_failed(scheduler_pointer self, const caf::error& why) {
  if (!std::exchange(self->state.under_way, std::nullopt)) return;  // a card has ended meanwhile, and everybody was told
  const error what = from_caf(why);
  const bool card_lives = what.code == errc::unknown_session || what.code == errc::out_of_memory;
  if (!card_lives) self->state.lost = what;
  fail_all(self, what);
  look_for_work(self);
}

// A card has ended, in whatever way: no session can run any more. A window that it was running is answered, or never will be.
void card_ended(scheduler_pointer self) {
  auto& state = self->state;
  if (!state.lost) state.lost = error{errc::card_lost, "a card has ended, and with it its layers; restart the daemon"};
  state.under_way.reset();
  look_for_work(self);
}

void run_stage(scheduler_pointer self, std::size_t stage, std::shared_ptr<const std::vector<float>> x);

void stage_done(scheduler_pointer self, std::size_t stage, window_result& answer) {
  auto& state = self->state;
  if (!state.under_way) return;  // a card has ended meanwhile
  state.stages_ms += answer.took_ms;
  if (!answer.hits.empty()) state.sessions->count_hits(*state.under_way, answer);
  if (stage + 1 < state.cards.size()) return run_stage(self, stage + 1, std::move(answer.x));
  const window done = *std::exchange(state.under_way, std::nullopt);
  if (!answer.hits.empty()) send_tokens(self, done, answer);  // without hits: a halt came before the window began
  look_for_work(self);
}

void run_stage(scheduler_pointer self, std::size_t stage, std::shared_ptr<const std::vector<float>> x) {
  auto& state = self->state;
  window part = *state.under_way;
  part.x = std::move(x);
  const auto timeout = limits::window_timeout * (part.repeat + 1);
  self->request(state.cards[stage], timeout, run_atom::value, std::move(part))
      .then([self, stage](window_result& answer) { stage_done(self, stage, answer); },
            [self](caf::error& why) { window_failed(self, why); });
}

void begin_window(scheduler_pointer self) {
  auto& state = self->state;
  window next = state.sessions->next_window(state.cards.size() == 1 ? state.options.repeat_max : 0);
  if (next.rows.empty()) {
    state.decoded_at.reset();
    return;
  }
  state.stages_ms = 0;
  state.under_way = std::move(next);
  state.halt_sent = false;
  run_stage(self, 0, nullptr);
}

// Between two windows: sessions leave, sessions join, the next window begins.
void look_for_work(scheduler_pointer self) {
  auto& state = self->state;
  if (state.under_way) return;
  for (const session_id session : std::exchange(state.to_cancel, {})) cancel_now(self, session);
  if (state.lost) {
    fail_all(self, *state.lost);
    if (auto promise = std::exchange(state.stopping, std::nullopt)) promise->deliver(state_of(state));
    return;
  }
  while (const auto opening = state.sessions->admit()) open_session(self, *opening);
  begin_window(self);
}

// The batch is to change: at once if no window is under way, else when it has ended.
void batch_changes(scheduler_pointer self) {
  auto& state = self->state;
  if (!state.under_way) return look_for_work(self);
  if (state.under_way->repeat > 0 && !std::exchange(state.halt_sent, true)) self->send(state.cards.front(), halt_atom::value);
}

}  // namespace

scheduler_actor::behavior_type scheduler_behavior(scheduler_pointer self, std::vector<card_actor> cards, scheduler_options options) {
  EBB_ASSERT(!cards.empty());
  auto& state = self->state;
  state.sessions.emplace(options.places, options.chunk);
  state.cards = std::move(cards);
  state.options = std::move(options);
  for (const card_actor& card : state.cards) self->monitor(card);
  self->set_down_handler([self](const caf::down_msg& down) {
    const auto& all = self->state.cards;
    const auto which = std::find_if(all.begin(), all.end(), [&](const card_actor& card) { return card.address() == down.source; });
    const error why = from_caf(down.reason);
    self->state.options.tell(bus::card_lost{static_cast<std::uint32_t>(which - all.begin()),
                                            why.code == errc::card_lost ? why.text : "the card has ended; start the daemon again"});
    card_ended(self);
  });
  return {
      [self](submit_atom, const session_listener& listener, session_id session, const std::shared_ptr<const session_order>& order) {
        auto& data = self->state;
        data.listeners.emplace(session, listener);
        data.sessions->submit(session, order, data.options.now());
        if (data.sessions->has_room() || data.lost) batch_changes(self);
      },
      [self](cancel_atom, session_id session) {
        self->state.to_cancel.push_back(session);
        batch_changes(self);
      },
      [self](ran_atom, const window_result& answer) {
        auto& data = self->state;
        if (!data.under_way) return;  // it failed meanwhile
        data.stages_ms += answer.took_ms;
        data.sessions->count_hits(*data.under_way, answer);
        const window done = *data.under_way;
        send_tokens(self, done, answer);
        data.under_way = following(done, answer);
      },
      [self](info_atom) { return state_of(self->state); },
      [self](stop_atom) -> caf::result<scheduler_state> {
        auto& data = self->state;
        data.lost = error{errc::cancelled, "the daemon is stopping"};
        auto promise = self->make_response_promise<scheduler_state>();
        data.stopping = promise;
        batch_changes(self);
        return promise;
      },
  };
}

}  // namespace ebb::actors

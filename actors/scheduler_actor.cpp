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
  return {.sessions = sessions.running_count(),
          .sessions_max = sessions.places(),
          .waiting = sessions.waiting_count(),
          .tokens_generated = sessions.tokens(),
          .windows = sessions.windows(),
          .prompt_tokens = sessions.prompt_tokens(),
          .gaps = sessions.gaps(),
          .lost = state.lost.has_value(),
          .handover_ms = state.handover.ms(0).value_or(0)};
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
              self->send(listener->second, token_atom::value, session_token{.session = session, .index = session_token::held_back, .text = std::move(last.text)});
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
        .then([] {}, [self, session = opening.session](caf::error& why) {
          self->state.departures.push_back({session, from_caf(why)});
          batch_changes(self);
        });
  }
}

// A plan speaks of a session that decodes alone, so windows of one row are what is learnt from.
void learn_handover(scheduler_state_data& state, const scheduler_state_data::pass& done, bool alone, time_point now) {
  const auto before = std::exchange(state.decoded_at, alone && done.what.rows.size() == 1 ? std::optional(now) : std::nullopt);
  if (before && state.decoded_at) state.handover.note(0, std::max(0.0, milliseconds_between(*before, now) - done.stages_ms));
}

// `alone`: no other window is under way.
void send_tokens(scheduler_pointer self, const scheduler_state_data::pass& done, bool alone, const window_result& answer) {
  auto& state = self->state;
  const time_point now = state.options.now();
  learn_handover(state, done, alone, now);
  for (session_token& token : state.sessions->complete(done.what, answer, now)) {
    const auto listener = state.listeners.find(token.session);
    if (listener != state.listeners.end()) self->send(listener->second, token_atom::value, std::move(token));
  }
  for (const picked_token& picked : answer.picked) {
    if (picked.finish != model::finish::none) end_session(self, picked.session, picked.finish, picked.logits_hash);
  }
}

void window_failed(scheduler_pointer self, std::uint64_t number, const caf::error& why) {
  auto& state = self->state;
  if (state.under_way.erase(number) == 0) return;  // a card has ended meanwhile, and everybody was told
  const error what = from_caf(why);
  const bool card_lives = what.code == errc::unknown_session || what.code == errc::out_of_memory;
  if (!card_lives) state.lost = what;
  state.failed = what;
  look_for_work(self);
}

// A card has ended, in whatever way: no session can run any more. A window that it was running is answered, or never will be.
void card_ended(scheduler_pointer self) {
  auto& state = self->state;
  if (!state.lost) state.lost = error{errc::card_lost, "a card has ended, and with it its layers; restart the daemon"};
  state.under_way.clear();
  state.sessions->give_up_windows();
  look_for_work(self);
}

void run_stage(scheduler_pointer self, const window& what, std::size_t stage, std::shared_ptr<const std::vector<float>> x);

void stage_done(scheduler_pointer self, std::uint64_t number, std::size_t stage, window_result& answer) {
  auto& state = self->state;
  const auto found = state.under_way.find(number);
  if (found == state.under_way.end()) return;  // a card has ended meanwhile
  found->second.stages_ms += answer.took_ms;
  if (!answer.hits.empty()) state.sessions->count_hits(found->second.what, answer);
  if (stage + 1 < state.cards.size()) return run_stage(self, found->second.what, stage + 1, std::move(answer.x));
  const scheduler_state_data::pass done = std::move(found->second);
  state.under_way.erase(found);
  if (answer.hits.empty()) state.sessions->not_run(done.what);  // a halt came before the window began
  else send_tokens(self, done, state.under_way.empty(), answer);
  look_for_work(self);
}

void run_stage(scheduler_pointer self, const window& what, std::size_t stage, std::shared_ptr<const std::vector<float>> x) {
  auto& state = self->state;
  window part = what;
  part.x = std::move(x);
  const auto timeout = limits::window_timeout * (part.repeat + state.options.windows_max);  // it may have to wait for those before it
  self->request(state.cards[stage], timeout, run_atom::value, std::move(part))
      .then([self, number = what.number, stage](window_result& answer) { stage_done(self, number, stage, answer); },
            [self, number = what.number](caf::error& why) { window_failed(self, number, why); });
}

bool begin_window(scheduler_pointer self) {
  auto& state = self->state;
  window next = state.sessions->next_window(state.cards.size() == 1 ? state.options.repeat_max : 0);
  const bool alone = state.under_way.empty();
  if (alone == next.rows.empty()) state.decoded_at.reset();  // a pause, or another session
  if (next.rows.empty()) return false;
  const std::uint64_t number = next.number;
  const auto begun = state.under_way.emplace(number, scheduler_state_data::pass{std::move(next)});
  EBB_ASSERT(begun.second);
  state.halt_sent = false;
  run_stage(self, begun.first->second.what, 0, nullptr);
  return true;
}

// Sessions that a window under way has rows of are left out of the next ones, and looked at again when it has ended.
void let_leave(scheduler_pointer self) {
  auto& state = self->state;
  for (auto& each : std::exchange(state.departures, {})) {
    if (state.sessions->under_way(each.session)) {
      state.sessions->hold(each.session);
      state.departures.push_back(std::move(each));
    } else if (each.failure) {
      fail_session(self, each.session, *each.failure);
    } else {
      cancel_now(self, each.session);
    }
  }
}

// Between two windows: sessions leave, sessions join, and windows begin for the devices that have none.
void look_for_work(scheduler_pointer self) {
  auto& state = self->state;
  if (state.failed) {
    if (!state.under_way.empty()) return;
    state.sessions->give_up_windows();
    fail_all(self, *std::exchange(state.failed, std::nullopt));
  }
  let_leave(self);
  if (state.lost) {
    if (!state.under_way.empty()) return;
    fail_all(self, *state.lost);
    if (auto promise = std::exchange(state.stopping, std::nullopt)) promise->deliver(state_of(state));
    return;
  }
  while (const auto opening = state.sessions->admit()) open_session(self, *opening);
  while (state.under_way.size() < state.options.windows_max && begin_window(self)) continue;
}

// The batch is to change: at once if a window may begin, else when one has ended.
void batch_changes(scheduler_pointer self) {
  auto& state = self->state;
  if (state.under_way.size() < state.options.windows_max) return look_for_work(self);
  const bool repeats = state.under_way.begin()->second.what.repeat > 0;
  if (repeats && !std::exchange(state.halt_sent, true)) self->send(state.cards.front(), halt_atom::value);
}

}  // namespace

scheduler_actor::behavior_type scheduler_behavior(scheduler_pointer self, std::vector<card_actor> cards, scheduler_options options) {
  EBB_ASSERT(!cards.empty());
  auto& state = self->state;
  state.cards = std::move(cards);
  state.options = std::move(options);
  if (state.cards.size() == 1) state.options.windows_max = 1;
  state.sessions.emplace(state.options.places, state.options.chunk, state.options.windows_max);
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
        self->state.departures.push_back({session, std::nullopt});
        batch_changes(self);
      },
      [self](ran_atom, const window_result& answer) {
        auto& data = self->state;
        const auto found = data.under_way.find(answer.number);
        if (found == data.under_way.end()) return;  // it failed meanwhile
        found->second.stages_ms += answer.took_ms;
        data.sessions->count_hits(found->second.what, answer);
        send_tokens(self, found->second, true, answer);  // the only card repeats, so no other window is under way
        found->second = {following(found->second.what, answer)};
        data.sessions->goes_on(found->second.what);
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

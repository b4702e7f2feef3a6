#include "actors/card_actor.hpp"
#include "config/assert.hpp"

namespace ebb::actors {
namespace {

using card_pointer = card_actor::stateful_pointer<card_state>;

void tell_residency(card_pointer self) {
  card_state& state = self->state;
  const residency_change change = state.device->residency();
  if (change.version == state.told_version) return;
  state.told_version = change.version;
  self->send(state.residency, changed_atom::value, card_actor(self), change);
}

// The end of a run, one way or the other.
void finish_run(card_state& state, result<window_result> outcome) {
  auto promise = std::move(state.running->promise);
  state.running.reset();
  if (outcome) promise.deliver(std::move(*outcome));
  else promise.deliver(to_caf(outcome.error()));
}

// The device has failed: whoever waits is told, and so is everybody who watches this actor.
void lose(card_pointer self, const error& why) {
  card_state& state = self->state;
  const error told{errc::card_lost, why.text + "; the card is lost, and with it its layers: start the daemon again"};
  finish_run(state, fail(told));
  self->quit(to_caf(told));
}

bool any_finished(const window_result& answer) {
  return std::any_of(answer.picked.begin(), answer.picked.end(), [](const auto& picked) { return picked.finish != model::finish::none; });
}

void run_window(card_pointer self) {
  card_state& state = self->state;
  auto answer = state.device->run(state.running->next);
  if (!answer && answer.error().code == errc::card_lost) return lose(self, answer.error());
  state.device->adapt();
  tell_residency(self);
  const bool goes_on = answer && state.running->next.repeat > 0 && !state.running->halted && !any_finished(*answer);
  if (!goes_on) return finish_run(state, std::move(answer));
  state.running->next = following(state.running->next, *answer);
  caf::anon_send(caf::actor_cast<caf::actor>(state.running->listener), ran_atom::value, std::move(*answer));
  self->send(self, next_atom::value);
}

// The end of a resize: exactly one of the two promises waits for it.
void finish_resize(card_pointer self) {
  card_state& state = self->state;
  auto outcome = state.device->end_resize();
  tell_residency(self);
  if (auto promise = std::exchange(state.resizing, std::nullopt)) {
    if (outcome) promise->deliver(*outcome);
    else promise->deliver(to_caf(outcome.error()));
  }
  if (auto promise = std::exchange(state.loading, std::nullopt)) {
    if (outcome) promise->deliver(state.device->info());
    else promise->deliver(to_caf(outcome.error()));
  }
}

void step_resize(card_pointer self) {
  if (self->state.device->resize_step()) return finish_resize(self);
  tell_residency(self);
  self->send(self, step_atom::value);
}

caf::error not_loaded() { return to_caf(error{errc::not_loaded, "the card has not taken its device yet"}); }

}  // namespace

card_state::~card_state() {
  const auto tell = [](auto& promise) { promise.deliver(to_caf(error{errc::card_lost, "the card has ended; start the daemon again"})); };
  if (running) tell(running->promise);
  if (resizing) tell(*resizing);
  if (loading) tell(*loading);
}

card_actor::behavior_type card_behavior(card_pointer self, card_factory make, residency_actor residency) {
  self->state.residency = std::move(residency);
  return {
      [self, make = std::move(make)](load_atom) -> caf::result<bus::card_info> {
        auto device = make();
        if (!device) return to_caf(device.error());
        self->state.device = std::move(*device);
        if (auto begun = self->state.device->begin_fill(); !begun) return to_caf(begun.error());
        self->state.loading = self->make_response_promise<bus::card_info>();
        self->send(self, step_atom::value);
        return *self->state.loading;
      },
      [self](open_atom, const session_opening& opening) -> caf::result<void> {
        if (!self->state.device) return not_loaded();
        return to_caf(self->state.device->open(opening));
      },
      [self](close_atom, session_id session, std::uint32_t place) {
        if (self->state.device) self->state.device->close(session, place);
      },
      [self](cancel_atom, session_id session) -> caf::result<picked_token> {
        if (!self->state.device) return not_loaded();
        if (auto last = self->state.device->cancel(session)) return std::move(*last);
        return to_caf(error{errc::unknown_session, "the session has ended"});
      },
      [self](run_atom, const window& what) -> caf::result<window_result> {
        card_state& state = self->state;
        if (!state.device) return not_loaded();
        EBB_ASSERT(!state.running);
        const auto listener = self->current_sender();  // before the promise, which takes the sender out of the message
        EBB_ASSERT(listener != nullptr);
        auto promise = self->make_response_promise<window_result>();
        state.running = card_state::run{what, promise, listener, false};
        run_window(self);
        return promise;
      },
      [self](next_atom) {
        if (!self->state.running) return;
        if (self->state.running->halted) {
          // The window that was under way when the halt came has been reported already; an empty one ends the run.
          window_result nothing;
          nothing.number = self->state.running->next.number;
          return finish_run(self->state, std::move(nothing));
        }
        run_window(self);
      },
      [self](halt_atom) {
        if (self->state.running) self->state.running->halted = true;
      },
      [self](resize_atom, const resize_goal& goal) -> caf::result<resize_outcome> {
        card_state& state = self->state;
        if (!state.device) return not_loaded();
        if (auto begun = state.device->begin_resize(goal); !begun) return to_caf(begun.error());
        state.resizing = self->make_response_promise<resize_outcome>();
        auto promise = *state.resizing;
        step_resize(self);
        return promise;
      },
      [self](step_atom) {
        if (self->state.device && self->state.device->resizing()) step_resize(self);
      },
      [self](plan_atom, const resize_goal& goal) -> caf::result<bus::card_plan> {
        if (!self->state.device) return not_loaded();
        return to_caf(self->state.device->foresee(goal));
      },
      [self](adopt_atom, std::uint64_t version) {
        if (self->state.device) self->state.device->adopt_fast_path(version);
      },
      [self](info_atom) -> caf::result<bus::card_info> {
        if (!self->state.device) return not_loaded();
        // The ledger counts on the free figure: none is better than a wrong one.
        const auto free_bytes = self->state.device->memory().arena().free_bytes();
        if (!free_bytes) return to_caf(free_bytes.error());
        return self->state.device->info(*free_bytes);
      },
      [self](size_atom) -> caf::result<cache_size> {
        if (!self->state.device) return not_loaded();
        return self->state.device->size();
      },
      [self](heat_atom) -> caf::result<stage_heat> {
        if (!self->state.device) return not_loaded();
        return self->state.device->heat();
      },
      [self](map_atom) -> caf::result<bus::expert_map> {
        if (!self->state.device) return not_loaded();
        return self->state.device->experts();
      },
  };
}

}  // namespace ebb::actors

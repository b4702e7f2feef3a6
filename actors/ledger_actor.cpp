#include "actors/ledger_actor.hpp"
#include "config/limits.hpp"
#include <algorithm>

namespace ebb::actors {
namespace {

using ledger_pointer = ledger_actor::stateful_pointer<ledger_state>;

void begin_next(ledger_pointer self);

void finish_current(ledger_pointer self) {
  auto& state = self->state;
  auto& cards = state.report.cards;
  std::sort(cards.begin(), cards.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
  if (state.failure) {
    std::string text = state.failure->text;
    for (const auto& done : cards) text += "; device " + std::to_string(done.device) + " holds its new reserve";
    state.current->promise.deliver(to_caf(error{state.failure->code, std::move(text)}));
  } else {
    state.current->promise.deliver(std::move(state.report));
  }
  state.current.reset();
  begin_next(self);
}

void card_answered(ledger_pointer self) {
  if (--self->state.answers_missing == 0) finish_current(self);
}

void begin_current(ledger_pointer self) {
  auto& state = self->state;
  state.report = {};
  state.failure.reset();
  const auto targets = state.book->targets(state.current->asked);
  if (!targets) {
    state.failure = targets.error();
    return finish_current(self);
  }
  state.answers_missing = targets->size();
  for (const reserve_target target : *targets) {
    self->request(state.cards[target.card.value], limits::resize_timeout, resize_atom::value, target.reserve_mib)
        .then(
            [self, target](bus::card_report& report) {
              self->state.book->set(target);
              self->state.report.cards.push_back(std::move(report));
              card_answered(self);
            },
            [self](caf::error& why) {
              self->state.failure = from_caf(why);
              card_answered(self);
            });
  }
}

void begin_next(ledger_pointer self) {
  auto& state = self->state;
  if (state.current || state.waiting.empty()) return;
  state.current = std::move(state.waiting.front());
  state.waiting.pop_front();
  begin_current(self);
}

}  // namespace

ledger_actor::behavior_type ledger_behavior(ledger_pointer self, std::vector<card_actor> cards, std::vector<std::uint32_t> start_reserve_mib) {
  self->state.book.emplace(std::move(start_reserve_mib));
  self->state.cards = std::move(cards);
  return {
      [self](vram_atom, const bus::vram& asked) -> caf::result<bus::vram_report> {
        auto promise = self->make_response_promise<bus::vram_report>();
        self->state.waiting.push_back({asked, promise});
        begin_next(self);
        return promise;
      },
  };
}

}  // namespace ebb::actors

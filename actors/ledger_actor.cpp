#include "actors/ledger_actor.hpp"
#include "actors/plan.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <cmath>

namespace ebb::actors {
namespace {

using ledger_pointer = ledger_actor::stateful_pointer<ledger_state>;
using acquiring = ledger_state::acquiring;

ledger& book(ledger_pointer self) { return self->state.options->book; }
time_point now(ledger_pointer self) { return self->state.options->now(); }
void tell(ledger_pointer self, bus::event_body what) { self->state.options->tell(std::move(what)); }

// --- one thing after the other

void enqueue(ledger_pointer self, std::function<void()> operation) {
  auto& operations = self->state.operations;
  operations.push_back(std::move(operation));
  if (operations.size() == 1) operations.front()();
}

void next(ledger_pointer self) {
  auto& operations = self->state.operations;
  EBB_ASSERT(!operations.empty());
  operations.pop_front();
  if (!operations.empty()) operations.front()();
}

bool is_written(ledger_pointer self) {
  const auto& options = *self->state.options;
  return !options.write_down || options.book.revision() == self->state.revision_written;
}

// When a lease ends or an acquire has waited long enough, but at least as often as limits::ledger_tick.
void set_tick(ledger_pointer self) {
  auto& state = self->state;
  const bool regrows = std::any_of(state.regrowths.begin(), state.regrowths.end(), [](const auto& each) { return each.has_value(); });
  if (state.tick_set || (!regrows && state.waiting_for_room.empty() && book(self).leases().empty() && is_written(self))) return;
  state.tick_set = true;
  time_point due = now(self) + limits::ledger_tick;
  if (const auto end = book(self).next_end()) due = std::min(due, *end);
  for (const acquiring& each : state.waiting_for_room) due = std::min(due, each.until);
  self->delayed_send(self, std::max<std::chrono::nanoseconds>(due - now(self), std::chrono::milliseconds(1)), tick_atom::value);
}

result<void> write_down(ledger_pointer self) {
  if (is_written(self)) return {};
  const auto& options = *self->state.options;
  const std::uint64_t revision = options.book.revision();
  auto written = options.write_down(options.book.state(options.now(), options.unix_ms()));
  if (written) self->state.revision_written = revision;
  return written;
}

resize_goal goal_of(ledger_pointer self, card_id card, std::uint32_t reserve_mib) {
  return {.reserve_mib = reserve_mib, .extra_mib = 0, .extra_min_mib = 0, .ceiling_mib = book(self).ceiling_mib(card, reserve_mib)};
}

template <class Done, class Failed>
void resize(ledger_pointer self, card_id card, const resize_goal& goal, Done done, Failed failed) {
  self->request(self->state.cards[card.value], limits::resize_timeout, resize_atom::value, goal)
      .then([done](const resize_outcome& outcome) { done(outcome); }, [failed](const caf::error& why) { failed(from_caf(why)); });
}

void tell_resized(ledger_pointer self, const bus::card_report& report, const char* cause) {
  double& told = self->state.cache_told_mib[report.device];
  if (std::exchange(told, report.expert_cache_mib) != report.expert_cache_mib) tell(self, bus::resized{report, cause});
  if (report.short_mib > 0) tell(self, bus::short_of{report.device, report.short_mib});
}

void bring_back(ledger_pointer self, card_id card, const error& why);

// --- vram

struct vram_command {
  caf::typed_response_promise<bus::vram_report> promise;
  std::size_t rows_missing = 0;  // of cards that take their turns
  bus::vram_report report;
  std::optional<error> failure;
};

void finish(ledger_pointer self, vram_command& command) {
  auto& cards = command.report.cards;
  std::sort(cards.begin(), cards.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
  if (!cards.empty()) {
    if (auto written = write_down(self); !written && !command.failure) command.failure = written.error();
  }
  if (command.failure) {
    std::string text = command.failure->text;
    for (const auto& done : cards) text += "; device " + std::to_string(done.device) + " holds its new reserve";
    command.promise.deliver(to_caf(error{command.failure->code, std::move(text)}));
  } else {
    command.promise.deliver(std::move(command.report));
  }
  next(self);
}

// One after the other.
struct turn {
  reserve_target target;
  bool is_second = false;  // the first left it short, before others had given
};
using turns = std::vector<turn>;

// Cards that share a memory together, in the order of their numbers.
std::vector<turns> by_memory(ledger_pointer self, const std::vector<reserve_target>& targets) {
  const auto& memories = self->state.options->memories;
  std::vector<turns> rows;
  for (const reserve_target& target : targets) {
    const auto shared = std::find_if(rows.begin(), rows.end(), [&](const turns& row) {
      return !memories.empty() && memories[row.front().target.card.value] == memories[target.card.value];
    });
    if (shared == rows.end()) rows.push_back({{target}});
    else shared->push_back({target});
  }
  return rows;
}

// Each goes by the free figure that the one before it left: what that has freed it need not free again. One that was short looks again when the
// others have given.
void bring_in_turn(ledger_pointer self, const std::shared_ptr<vram_command>& command, turns row) {
  const auto [target, is_second] = row.front();
  row.erase(row.begin());
  const auto go_on = [self, command](const turns& left) {
    if (!left.empty()) return bring_in_turn(self, command, left);
    if (--command->rows_missing == 0) finish(self, *command);
  };
  resize(
      self, target.card, goal_of(self, target.card, target.reserve_mib),
      [=](const resize_outcome& outcome) {
        book(self).set(target);
        if (outcome.report.short_mib > 0 && !row.empty() && !is_second) {
          turns left = row;
          left.push_back({target, true});
          return go_on(left);
        }
        command->report.cards.push_back(outcome.report);
        tell_resized(self, outcome.report, "command");
        go_on(row);
      },
      [=](error why) {
        bring_back(self, target.card, why);
        command->failure = std::move(why);
        go_on(row);
      });
}

void set_reserves(ledger_pointer self, const bus::vram& asked, const std::shared_ptr<vram_command>& command) {
  const auto targets = book(self).targets(asked.reserve_mib, asked.device);
  if (!targets) {
    command->failure = targets.error();
    return finish(self, *command);
  }
  const std::vector<turns> rows = by_memory(self, *targets);
  command->rows_missing = rows.size();
  for (const turns& each : rows) bring_in_turn(self, command, each);
}

// --- growing back

void regrow(ledger_pointer self, card_id card) {
  auto& wanted = self->state.regrowths[card.value];
  if (!wanted || std::exchange(wanted->under_way, true)) return;
  enqueue(self, [self, card] {
    auto& growth = self->state.regrowths[card.value];
    if (!growth) return next(self);  // a command has come meanwhile
    growth->under_way = false;
    const auto goal = goal_of(self, card, book(self).reserve_mib(card));
    resize(
        self, card, goal,
        [self, card, goal](const resize_outcome& outcome) {
          const bus::card_report& report = outcome.report;
          auto& growing = self->state.regrowths[card.value];
          tell_resized(self, report, "lease_ended");
          const double before = growing ? growing->together_mib - report.reserve_mib : 0;
          const double most = std::min(before, report.expert_cache_full_mib);
          // It ends when all is there again and no whole segment more fits. While another lease bounds it, it goes on when that has
          // ended.
          const double room = report.vram_free_mib - report.reserve_mib;
          if (!goal.ceiling_mib && !outcome.could_grow && room >= most - report.expert_cache_mib) growing.reset();
          set_tick(self);
          next(self);
        },
        [self](const error&) {
          set_tick(self);  // tried again then
          next(self);
        });
  });
}

// An earlier one that waits for a neighbour, maybe the holder of a lease that is over, is not forgotten.
void begin_regrowth(ledger_pointer self, card_id card) {
  auto& growth = self->state.regrowths[card.value];
  if (!growth) growth.emplace();
  growth->together_mib = std::max(growth->together_mib, self->state.together_mib[card.value]);
  regrow(self, card);
}

// A resize that failed in the middle may have left a card at a size that nobody asked for.
void bring_back(ledger_pointer self, card_id card, const error& why) {
  const bool nothing_changed = why.code == errc::short_of || why.code == errc::refused || why.code == errc::busy || why.code == errc::not_loaded;
  if (!nothing_changed) begin_regrowth(self, card);
}

void retry_waiting(ledger_pointer self);

void lease_over(ledger_pointer self, const ended_lease& ended) {
  tell(self, bus::lease_ended{ended.lease.info(now(self)), std::string(to_string(ended.cause))});
  begin_regrowth(self, ended.lease.card);
}

// --- leases

bus::lease_report report_of(ledger_pointer self, const held_lease& lease) { return {{lease.info(now(self))}, {}, {}}; }

std::string warning_of(const bus::lease& asked, std::uint32_t mib, bool contexts) {
  std::string warning;
  if (mib < asked.mib) warning = "only " + std::to_string(mib) + " of " + std::to_string(*asked.mib) + " MiB could be freed";
  if (!contexts || mib >= limits::context_mib_warned) return warning;
  if (!warning.empty()) warning += "; ";
  return warning + "less than " + std::to_string(limits::context_mib_warned) +
         " MiB: a program that has no CUDA context on this card yet needs 305 to 613 MiB for that alone";
}

template <class Answer>
void deliver(const acquiring& to, Answer answer) {
  auto promise = to.promise;
  promise.deliver(std::move(answer));
}
void refuse(const acquiring& to, const error& why) { deliver(to, to_caf(why)); }

// Waits for room if it may, else says that there is none.
void no_room(ledger_pointer self, const acquiring& wanted, error why) {
  auto& waiting = self->state.waiting_for_room;
  if (why.code == errc::short_of && wanted.until > now(self)) {
    if (waiting.size() < limits::lease_waiting_max) {
      waiting.push_back(wanted);
      return set_tick(self);
    }
    why = {errc::busy, std::to_string(limits::lease_waiting_max) + " acquires wait for room already; try again later"};
  }
  refuse(wanted, why);
}

void give(ledger_pointer self, const acquiring& wanted, std::uint32_t mib, const bus::card_report& card) {
  const held_lease given = book(self).grant(wanted.asked, wanted.id, mib, wanted.pid_began, now(self));
  if (auto written = write_down(self); !written) {
    static_cast<void>(book(self).end(given.id, lease_cause::released));
    refuse(wanted, written.error());
    return begin_regrowth(self, given.card);
  }
  tell(self, bus::lease_granted{given.info(now(self))});
  deliver(wanted, bus::lease_report{{given.info(now(self))}, {card}, warning_of(wanted.asked, mib, self->state.options->contexts)});
  set_tick(self);
}

// The card has been asked for the memory. What it could not free in the end, since somebody else took it meanwhile, is given back.
void judge(ledger_pointer self, const acquiring& wanted, std::uint32_t tried_mib, const bus::card_report& report) {
  const auto missing = static_cast<std::uint32_t>(std::ceil(report.short_mib));
  const std::uint32_t mib = tried_mib > missing ? tried_mib - missing : 0;
  tell_resized(self, report, "lease");
  if (mib >= wanted.asked.min_mib.value_or(*wanted.asked.mib)) {
    give(self, wanted, mib, report);
    return next(self);
  }
  const card_id card{report.device};
  const error why{errc::short_of, "device " + std::to_string(card.value) + " freed only " + std::to_string(mib) +
                                      " MiB, another program took the rest meanwhile; nothing is lent, try again"};
  const auto undone = [=] {
    no_room(self, wanted, why);
    next(self);
  };
  resize(
      self, card, goal_of(self, card, book(self).reserve_mib(card)), [=](const resize_outcome&) { undone(); },
      [=](const error& failed) {
        bring_back(self, card, failed);
        undone();
      });
}

void ask_for_memory(ledger_pointer self, const acquiring& wanted) {
  const card_id card{*wanted.asked.device};
  const std::uint32_t reserve = book(self).reserve_mib(card);
  const std::uint32_t least = wanted.asked.min_mib.value_or(*wanted.asked.mib);
  // The free figure alone would promise the same memory twice, until the first holder has taken it.
  const std::uint32_t mib = std::min(*wanted.asked.mib, book(self).room_mib(card, reserve));
  if (mib < least) {
    no_room(self, wanted,
            {errc::short_of, "card " + std::to_string(card.value) + " can free " + std::to_string(mib) + " MiB beside its reserve of " + std::to_string(reserve) +
                                 " MiB and what is lent already, and " + std::to_string(least) + " are asked for; nothing has changed"});
    return next(self);
  }
  const resize_goal goal{
      .reserve_mib = reserve, .extra_mib = mib, .extra_min_mib = least, .ceiling_mib = book(self).ceiling_mib(card, reserve, mib)};
  resize(
      self, card, goal, [=](const resize_outcome& outcome) { judge(self, wanted, mib, outcome.report); },
      [=](error why) {
        bring_back(self, card, why);
        no_room(self, wanted, std::move(why));
        next(self);
      });
}

// What the card has is read anew before its first lease, and not again while one is held.
void count_and_ask(ledger_pointer self, const acquiring& wanted) {
  const card_id card{*wanted.asked.device};
  if (book(self).lends(card)) return ask_for_memory(self, wanted);
  self->request(self->state.cards[card.value], limits::status_timeout, info_atom::value)
      .then(
          [=](const bus::card_info& info) {
            const double together = info.report.expert_cache_mib + info.report.vram_free_mib;
            book(self).note_together(card, together);
            self->state.together_mib[card.value] = together;
            ask_for_memory(self, wanted);
          },
          [=](const caf::error& why) {
            refuse(wanted, from_caf(why));
            next(self);
          });
}

bool others_wait(ledger_pointer self, const acquiring& than) {
  const auto& waiting = self->state.waiting_for_room;
  return std::any_of(waiting.begin(), waiting.end(), [&](const acquiring& each) { return each.number < than.number && each.asked.device == than.asked.device; });
}

error holder_gone(std::uint32_t pid) { return {errc::cancelled, "lease: process " + std::to_string(pid) + " has ended while it waited for room; nothing is lent"}; }

void begin_acquire(ledger_pointer self, acquiring wanted) {
  const auto stop = [&](const error& why) {
    refuse(wanted, why);
    next(self);
  };
  if (const held_lease* given = book(self).given_for(wanted.asked, wanted.id)) {
    deliver(wanted, report_of(self, *given));
    return next(self);
  }
  if (auto possible = book(self).check(wanted.asked); !possible) return stop(possible.error());
  if (const auto pid = wanted.asked.pid) {
    const auto began = self->state.options->processes(*pid);
    if (wanted.pid_began != 0 && began != wanted.pid_began) return stop(holder_gone(*pid));
    if (!began) return stop({errc::bad_value, "field `pid`: there is no process " + std::to_string(*pid) + "; give the pid of the program that will use the memory, or none"});
    wanted.pid_began = *began;
  }
  if (others_wait(self, wanted)) {
    no_room(self, wanted, {errc::short_of, "others wait for room on card " + std::to_string(*wanted.asked.device) + " and come first; nothing has changed: wait too, with wait_s"});
    return next(self);
  }
  count_and_ask(self, wanted);
}

void acquire(ledger_pointer self, acquiring wanted) {
  enqueue(self, [self, wanted = std::move(wanted)] { begin_acquire(self, wanted); });
}

// Those whose time is over are told; the others try again, oldest first.
void retry_waiting(ledger_pointer self) {
  set_tick(self);  // while they are known: the operations before them may take a while
  for (acquiring& each : std::exchange(self->state.waiting_for_room, {})) acquire(self, std::move(each));
}

void end_lease(ledger_pointer self, std::uint64_t id, lease_cause cause, const std::function<void(const result<ended_lease>&)>& answer) {
  enqueue(self, [=] {
    const auto ended = book(self).end(id, cause);
    if (ended) static_cast<void>(write_down(self));  // if that fails, the tick tries again until it does not
    answer(ended);
    if (ended) {
      lease_over(self, *ended);
      retry_waiting(self);
    }
    next(self);
  });
}

result<held_lease> renew(ledger_pointer self, const bus::lease& asked) {
  const held_lease* const held = book(self).find(*asked.lease_id);
  const time_point before = held ? held->ends : time_point{};
  auto renewed = book(self).renew(*asked.lease_id, asked.ttl_s, now(self));
  if (!renewed) return renewed;
  if (auto written = write_down(self); !written) {
    book(self).set_end(*asked.lease_id, before);
    return fail(written.error());
  }
  return renewed;
}

caf::result<bus::lease_report> take_lease(ledger_pointer self, const bus::lease& asked, const bus::request_id& id) {
  if (asked.action == "list") {
    bus::lease_report all;
    for (const held_lease& each : book(self).leases()) all.leases.push_back(each.info(now(self)));
    return all;
  }
  auto promise = self->make_response_promise<bus::lease_report>();
  if (asked.action == "acquire") {
    acquire(self, {.asked = asked, .id = id, .promise = promise, .until = now(self) + std::chrono::seconds(asked.wait_s.value_or(0)), .number = ++self->state.acquires_begun});
  } else if (asked.action == "renew") {
    enqueue(self, [=]() mutable {
      if (auto renewed = renew(self, asked)) promise.deliver(report_of(self, *renewed));
      else promise.deliver(to_caf(renewed.error()));
      next(self);
    });
  } else {
    EBB_ASSERT(asked.action == "release");
    end_lease(self, *asked.lease_id, lease_cause::released, [=](const result<ended_lease>& ended) mutable {
      if (ended) promise.deliver(report_of(self, ended->lease));
      else promise.deliver(to_caf(ended.error()));
    });
  }
  return promise;
}

// --- plan

caf::result<bus::plan_report> take_plan(ledger_pointer self, const bus::plan& asked) {
  const auto targets = book(self).targets(asked.reserve_mib, asked.device);
  if (!targets) return to_caf(targets.error());
  struct gathering {
    caf::typed_response_promise<bus::plan_report> promise;
    std::vector<bus::card_plan> cards;
    std::size_t missing;
    std::optional<error> failure;
  };
  const auto all = std::make_shared<gathering>(gathering{self->make_response_promise<bus::plan_report>(), {}, self->state.cards.size(), {}});
  const auto answered = [all] {
    if (--all->missing > 0) return;
    if (all->failure) all->promise.deliver(to_caf(*all->failure));
    else all->promise.deliver(together(std::move(all->cards)));
  };
  for (std::uint32_t number = 0; number < self->state.cards.size(); ++number) {
    const auto target = std::find_if(targets->begin(), targets->end(), [&](const auto& each) { return each.card.value == number; });
    const std::uint32_t reserve = target == targets->end() ? book(self).reserve_mib({number}) : target->reserve_mib;
    self->request(self->state.cards[number], limits::status_timeout, plan_atom::value, goal_of(self, {number}, reserve))
        .then(
            [all, answered, promised_short = book(self).short_mib({number}, reserve)](bus::card_plan& card) {
              card.short_mib = std::max(card.short_mib, promised_short);  // a lease's memory is not free for another because its holder has not taken it yet
              all->cards.push_back(card);
              answered();
            },
            [all, answered](const caf::error& why) {
              all->failure = from_caf(why);
              answered();
            });
  }
  return all->promise;
}

// --- time

bool is_alive(ledger_pointer self, std::uint32_t pid, std::uint64_t began) { return self->state.options->processes(pid) == began; }

void take_tick(ledger_pointer self) {
  auto& state = self->state;
  state.tick_set = false;
  enqueue(self, [self] {
    const auto ended = book(self).take_ended(now(self), [self](std::uint32_t pid, std::uint64_t began) { return is_alive(self, pid, began); });
    static_cast<void>(write_down(self));  // also what could not be written before
    for (const ended_lease& each : ended) lease_over(self, each);
    for (std::uint32_t card = 0; card < self->state.cards.size(); ++card) regrow(self, {card});
    retry_waiting(self);
    next(self);
  });
}

void take_yield(ledger_pointer self, card_id card, double ceiling_mib) {
  EBB_ASSERT(card.value < self->state.cards.size());
  enqueue(self, [=] {
    book(self).yield(card, ceiling_mib < 0 ? std::nullopt : std::optional(ceiling_mib));
    static_cast<void>(write_down(self));
    set_tick(self);  // should that have failed
    resize(
        self, card, goal_of(self, card, book(self).reserve_mib(card)),
        [self](const resize_outcome& outcome) {
          tell_resized(self, outcome.report, "pressure");
          next(self);
        },
        [self, card](const error& why) {
          bring_back(self, card, why);
          next(self);
        });
  });
}

}  // namespace

ledger_actor::behavior_type ledger_behavior(ledger_pointer self, std::vector<card_actor> cards, ledger_options options) {
  auto& state = self->state;
  EBB_ASSERT(options.book.n_cards() == cards.size());
  state.options.emplace(std::move(options));
  state.regrowths.resize(cards.size());
  for (const auto& card : state.options->book.state(now(self), 0).cards) state.together_mib.push_back(card.together_mib.value_or(0));
  state.cache_told_mib.assign(cards.size(), -1);
  state.cards = std::move(cards);
  set_tick(self);
  return {
      [self](vram_atom, const bus::vram& asked) -> caf::result<bus::vram_report> {
        auto command = std::make_shared<vram_command>();
        command->promise = self->make_response_promise<bus::vram_report>();
        auto promise = command->promise;
        enqueue(self, [self, asked, command] { set_reserves(self, asked, command); });
        return promise;
      },
      [self](lease_atom, const bus::lease& asked, const bus::request_id& id) { return take_lease(self, asked, id); },
      [self](plan_atom, const bus::plan& asked) { return take_plan(self, asked); },
      [self](left_atom, std::uint64_t lease_id) { end_lease(self, lease_id, lease_cause::client_left, [](const auto&) {}); },
      [self](yield_atom, card_id card, double ceiling_mib) { take_yield(self, card, ceiling_mib); },
      [self](tick_atom) { take_tick(self); },
  };
}

}  // namespace ebb::actors

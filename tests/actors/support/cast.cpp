#include "cast.hpp"
#include <algorithm>

namespace ebb::actors::test {

cast::cast(const cast_options& options) : options_(options) {
  residency = system_.spawn(residency_behavior, event_sink([this](bus::event_body what) { events.push_back(std::move(what)); }));
  for (std::uint32_t number = 0; number < options_.first_layers.size(); ++number) spawn_card(number);
  spawn_ledger();
  scheduler = system_.spawn(scheduler_behavior, cards, scheduler_options{options_.places, options_.repeat_max, clock(), [this](bus::event_body what) { events.push_back(std::move(what)); }, {}, options_.windows_max});
  spawn_gateway();
  if (options_.load) load_cards();
}

cast::~cast() {
  end(gateway);
  end(scheduler);
  end(ledger);
  for (card_actor& each : cards) end(each);
  end(residency);
  run();
}

void cast::spawn_card(std::uint32_t number) {
  card_options of = whole_card(model());
  of.card = {number};
  of.layer_begin = options_.first_layers[number];
  if (number + 1 < options_.first_layers.size()) of.layer_end = options_.first_layers[number + 1];
  of.n_sessions = options_.places;
  of.context = context;
  of.elastic = options_.elastic;
  of.card_bytes = std::uint64_t{options_.card_mib} << 20;
  of.reserve_mib = reserves()[number];
  if (options_.shape_card) options_.shape_card(of);
  card_factory make = [this, of] { return card::make(model().weights, model().vocabulary, of, fastest_ops(), test::one_thread(), clock()); };
  cards.push_back(system_.spawn(card_behavior, std::move(make), residency));
}

void cast::spawn_ledger() {
  ledger_options keeper{actors::ledger(reserves()), clock(), [this] { return unix_ms; },
                        [this](const bus::ledger_state& state) { return keep(state); },
                        [this](std::uint32_t pid) { return processes.contains(pid) ? std::optional(processes.at(pid)) : std::nullopt; },
                        [this](bus::event_body what) { events.push_back(std::move(what)); }};
  if (options_.restored) REQUIRE(keeper.book.restore(*options_.restored, now_, unix_ms));
  ledger = system_.spawn(ledger_behavior, cards, std::move(keeper));
}

void cast::spawn_gateway() {
  gateway_options door;
  door.about.version = "test";
  chat_prompt conversations(ebb::model::chat_template::plain(), model().vocabulary);
  door.orders = std::make_shared<const order_maker>(model().vocabulary, std::move(conversations), sampling_settings{}, context);
  door.sink = [this](const bus::client_id& to, const bus::reply& what, bool text) { replies.push_back({to, what, text}); };
  door.measure = [](bus::status_report report) {
    report.uptime_s = 12;
    return report;
  };
  door.events = [this] { return bus::subscribed{{"ipc:///events"}, events.size()}; };
  gateway = system_.spawn(gateway_behavior, scheduler, ledger, cards, std::move(door));
}

void cast::load_cards() {
  for (const card_actor& each : cards) {
    const auto loaded = ask<bus::card_info>(each, load_atom::value);
    REQUIRE(loaded);
    REQUIRE(loaded->resident);
  }
}

std::vector<std::uint32_t> cast::reserves() const {
  return options_.reserves_mib.empty() ? std::vector<std::uint32_t>(options_.first_layers.size(), 0) : options_.reserves_mib;
}

result<void> cast::keep(const bus::ledger_state& state) {
  if (disk_is_full) return fail(errc::file_unwritable, "the disk is full");
  kept = state;
  return {};
}

void cast::send(const bus::client_id& client, bus::request what) { caf::anon_send(gateway, frame_atom::value, client, std::move(what)); }
void cast::leave(const bus::client_id& client) { caf::anon_send(gateway, gone_atom::value, client); }

bool cast::run_once() {
  auto& jobs = coordinator().jobs;
  if (random_ && !jobs.empty()) std::swap(jobs.front(), jobs[(*random_)() % jobs.size()]);
  if (before_message && !jobs.empty()) tell_of(*jobs.front());
  const bool ran = turns_.run_once();
  if (ran && after_message) after_message();
  return ran;
}

void cast::run() {
  for (int jobs = 0; jobs < jobs_max; ++jobs) {
    if (!run_once()) return;
  }
  FAIL("the actors do not come to rest");
}

void cast::run_until(const std::function<bool()>& reached) {
  for (int jobs = 0; jobs < jobs_max; ++jobs) {
    if (reached()) return;
    if (!run_once()) FAIL("the actors came to rest before it was reached");
  }
  FAIL("the actors do not come to rest");
}

// Actors are named by the order in which they were spawned.
void cast::tell_of(caf::resumable& next) {
  auto* const whose = dynamic_cast<caf::scheduled_actor*>(&next);
  auto* const what = whose ? whose->mailbox().peek() : nullptr;
  if (what) before_message(whose->id(), what->content());
}

void cast::pass(std::chrono::nanoseconds time) {
  pass_amid_work(time);
  run();
}

void cast::pass_amid_work(std::chrono::nanoseconds time) {
  now_ += time;
  unix_ms += static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  turns_.pass(time);
}

}  // namespace ebb::actors::test

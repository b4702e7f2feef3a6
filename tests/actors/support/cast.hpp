// tests/actors/support/cast.hpp: all actors of a daemon around real cards, with the demo model or a given one, on CAF's testing
// scheduler.
//
// Everything runs on the test's thread, one message of one actor at a time, in the order of arrival or in one drawn from a seed.
// Time stands still but for what the test says, and no timeout ever fires: what is not answered is a finding.
#pragma once
#include "actors/card_actor.hpp"
#include "actors/gateway_actor.hpp"
#include "actors/ledger_actor.hpp"
#include "actors/residency_actor.hpp"
#include "actors/scheduler_actor.hpp"
#include "demo.hpp"
#include <caf/scheduler/test_coordinator.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <random>

namespace ebb::actors::test {

struct cast_options {
  std::vector<std::uint32_t> first_layers = {0};  // of each card
  std::uint32_t places = 4;
  std::uint32_t repeat_max = 8;
  bool elastic = true;
  bool load = true;
  std::uint32_t card_mib = 0;  // of each card; 0: what its cache needs
  std::optional<bus::ledger_state> restored;
  const demo_model* model = nullptr;                // null: the demo model
  std::vector<std::uint32_t> reserves_mib;          // of the start, one a card; empty: 0
  std::function<void(card_options&)> shape_card;    // has the last word on what a card is made of; empty: nothing to say
  std::chrono::milliseconds tick{0};  // that pass with each look at the clock; 5 make a step of a resize four units long
};

// A reply on its way to a client.
struct said {
  bus::client_id to;
  bus::reply what;
  bool text;
};

class cast {
 public:
  explicit cast(const cast_options& options = {}) : options_(options) {
    residency = system_.spawn(residency_behavior, event_sink([this](bus::event_body what) { events.push_back(std::move(what)); }));
    for (std::uint32_t number = 0; number < options.first_layers.size(); ++number) spawn_card(number);
    ledger_options keeper{actors::ledger(reserves()), clock(), [this] { return unix_ms; },
                          [this](const bus::ledger_state& state) { return keep(state); },
                          [this](std::uint32_t pid) { return processes.contains(pid) ? std::optional(processes.at(pid)) : std::nullopt; },
                          [this](bus::event_body what) { events.push_back(std::move(what)); }};
    if (options.restored) REQUIRE(keeper.book.restore(*options.restored, now_, unix_ms));
    ledger = system_.spawn(ledger_behavior, cards, std::move(keeper));
    scheduler = system_.spawn(scheduler_behavior, cards, scheduler_options{options.places, options.repeat_max, clock()});
    gateway_options door;
    door.about.version = "test";
    door.orders = std::make_shared<const order_maker>(model().vocabulary, sampling_settings{}, context);
    door.sink = [this](const bus::client_id& to, const bus::reply& what, bool text) { replies.push_back({to, what, text}); };
    door.measure = [](bus::status_report report) {
      report.uptime_s = 12;
      return report;
    };
    door.events = [this] { return bus::subscribed{{"ipc:///events"}, events.size()}; };
    gateway = system_.spawn(gateway_behavior, scheduler, ledger, cards, std::move(door));
    if (options.load) load_cards();
  }

  // A handle that outlives the system hangs it; so does an actor that does not end.
  ~cast() {
    end(gateway);
    end(scheduler);
    end(ledger);
    for (card_actor& each : cards) end(each);
    end(residency);
    run();
  }
  cast(const cast&) = delete;
  cast& operator=(const cast&) = delete;

  static constexpr std::uint32_t context = 256;

  clock_fn clock() {
    return [this] { return now_ += options_.tick; };
  }

  // --- as a client
  void send(const bus::client_id& client, bus::request what) { caf::anon_send(gateway, frame_atom::value, client, std::move(what)); }
  void leave(const bus::client_id& client) { caf::anon_send(gateway, gone_atom::value, client); }

  // --- running
  void draw_jobs_from(unsigned seed) { random_.emplace(seed); }

  bool run_once() {
    auto& jobs = coordinator().jobs;
    if (random_ && !jobs.empty()) std::swap(jobs.front(), jobs[(*random_)() % jobs.size()]);
    const auto next = jobs.empty() ? nullptr : jobs.front();
    if (next && before_message) tell_of(*next);
    const bool ran = coordinator().try_run_once();
    // The coordinator puts an actor that has more to do back in front, so a card that repeats would run on before anybody else.
    if (jobs.size() > 1 && jobs.front() == next) std::rotate(jobs.begin(), jobs.begin() + 1, jobs.end());
    if (ran && after_message) after_message();
    return ran;
  }

  // Until nobody has anything to do; a bound catches actors that keep each other busy for ever.
  void run() {
    for (int jobs = 0; jobs < jobs_max; ++jobs) {
      if (!run_once()) return;
    }
    FAIL("the actors do not come to rest");
  }

  void run_until(const std::function<bool()>& reached) {
    for (int jobs = 0; jobs < jobs_max; ++jobs) {
      if (reached()) return;
      if (!run_once()) FAIL("the actors came to rest before it was reached");
    }
    FAIL("the actors do not come to rest");
  }

  // Messages of this actor alone.
  template <class Handle>
  void run_only(const Handle& whom) {
    while (coordinator().prioritize(whom)) coordinator().try_run_once();
  }

  // Asks an actor, runs, and gives its answer.
  template <class Answer, class Handle, class... Arguments>
  result<Answer> ask(const Handle& whom, Arguments... what) {
    auto pending = self_->request(whom, caf::infinite, std::move(what)...);
    run();
    return receive<Answer>(std::move(pending));
  }

  // Of a request made before, which must have been answered by now.
  template <class Answer, class Pending>
  result<Answer> receive(Pending pending) {
    if (self_->mailbox().empty()) FAIL("no answer");
    result<Answer> outcome = fail(errc::internal, "no answer");
    pending.receive([&](const Answer& answer) { outcome = answer; }, [&](const caf::error& why) { outcome = fail(from_caf(why)); });
    return outcome;
  }

  // An actor dies, as when its device fails.
  template <class Handle>
  void end(const Handle& whom) {
    caf::anon_send_exit(whom, caf::exit_reason::user_shutdown);
  }

  // --- time. A delayed message comes when its time has come, and not before.
  void pass(std::chrono::nanoseconds time) {
    pass_amid_work(time);
    run();
  }
  // Without anybody's having worked meanwhile.
  void pass_amid_work(std::chrono::nanoseconds time) {
    now_ += time;
    unix_ms += static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
    coordinator().advance_time(time);
  }
  time_point now() const { return now_; }

  // --- what an actor keeps. Pre: it has not ended.
  template <class State, class Handle>
  static State& state_of(const Handle& whom) {
    return dynamic_cast<typename Handle::template stateful_pointer<State>>(caf::actor_cast<caf::abstract_actor*>(whom))->state;
  }

  caf::scoped_actor& self() { return self_; }
  caf::actor_system& system() { return system_; }

 private:
  result<void> keep(const bus::ledger_state& state) {
    if (disk_is_full) return fail(errc::file_unwritable, "the disk is full");
    kept = state;
    return {};
  }

  static constexpr int jobs_max = 200'000;

  static caf::actor_system_config& config_for_tests(caf::actor_system_config& config) {
    config.set("scheduler.policy", caf::atom("testing"));
    return config;
  }

  caf::scheduler::test_coordinator& coordinator() { return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler()); }

  // Actors are named by the order in which they were spawned.
  void tell_of(caf::resumable& next) {
    auto* const whose = dynamic_cast<caf::scheduled_actor*>(&next);
    auto* const what = whose ? whose->mailbox().peek() : nullptr;
    if (what) before_message(whose->id(), what->content());
  }

  const demo_model& model() const { return options_.model ? *options_.model : demo(); }

  std::vector<std::uint32_t> reserves() const {
    return options_.reserves_mib.empty() ? std::vector<std::uint32_t>(options_.first_layers.size(), 0) : options_.reserves_mib;
  }

  void spawn_card(std::uint32_t number) {
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
    card_factory make = [this, of] { return card::make(model().weights, model().vocabulary, of, fastest_ops(), one_thread(), clock()); };
    cards.push_back(system_.spawn(card_behavior, std::move(make), residency));
  }

  void load_cards() {
    for (const card_actor& each : cards) {
      const auto loaded = ask<bus::card_info>(each, load_atom::value);
      REQUIRE(loaded);
      REQUIRE(loaded->resident);
    }
  }

  cast_options options_;
  time_point now_{std::chrono::hours(1)};
  std::optional<std::mt19937> random_;
  caf::actor_system_config config_;
  caf::actor_system system_{config_for_tests(config_)};
  caf::scoped_actor self_{system_};

 public:
  residency_actor residency;
  std::vector<card_actor> cards;
  ledger_actor ledger;
  scheduler_actor scheduler;
  gateway_actor gateway;
  std::function<void(caf::actor_id, const caf::type_erased_tuple&)> before_message;  // that is about to be handled
  std::function<void()> after_message;
  std::vector<said> replies;
  std::vector<bus::event_body> events;
  std::optional<bus::ledger_state> kept;  // as last written down
  bool disk_is_full = false;
  std::map<std::uint32_t, std::uint64_t> processes;  // alive, with when they began
  std::uint64_t unix_ms = 1'700'000'000'000;
};

}  // namespace ebb::actors::test

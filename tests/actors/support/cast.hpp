// tests/actors/support/cast.hpp: all actors of a daemon around real cards, with the demo model or a given one, on CAF's testing
// scheduler.
//
// Everything runs on the test's thread, one message of one actor at a time, in the order of arrival or in one drawn from a seed.
// Time stands still but for what the test says, and no timeout ever fires: what is not answered is a finding.
#pragma once
#include "actors/card_actor.hpp"
#include "actors/gateway_actor.hpp"
#include "actors/ledger_actor.hpp"
#include "actors/one_thread.hpp"
#include "actors/residency_actor.hpp"
#include "actors/scheduler_actor.hpp"
#include "demo.hpp"
#include <functional>
#include <map>
#include <random>

namespace ebb::actors::test {

struct cast_options {
  std::vector<std::uint32_t> first_layers = {0};  // of each card
  std::uint32_t places = 4;
  std::uint32_t repeat_max = 8;
  std::uint32_t windows_max = 1;
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
  explicit cast(const cast_options& options = {});
  ~cast();  // ends them all: a handle that outlives the system hangs it, and so does an actor that does not end
  cast(const cast&) = delete;
  cast& operator=(const cast&) = delete;

  static constexpr std::uint32_t context = 256;

  clock_fn clock() {
    return [this] { return now_ += options_.tick; };
  }

  // --- as a client
  void send(const bus::client_id& client, bus::request what);
  void leave(const bus::client_id& client);

  // --- running
  void draw_jobs_from(unsigned seed) { random_.emplace(seed); }

  bool run_once();
  void run();  // until nobody has anything to do; a bound catches actors that keep each other busy for ever
  void run_until(const std::function<bool()>& reached);

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
  void pass(std::chrono::nanoseconds time);
  void pass_amid_work(std::chrono::nanoseconds time);  // without anybody's having worked meanwhile
  time_point now() const { return now_; }

  // --- what an actor keeps. Pre: it has not ended.
  template <class State, class Handle>
  static State& state_of(const Handle& whom) {
    return dynamic_cast<typename Handle::template stateful_pointer<State>>(caf::actor_cast<caf::abstract_actor*>(whom))->state;
  }

  caf::scoped_actor& self() { return self_; }
  caf::actor_system& system() { return system_; }

 private:
  static constexpr int jobs_max = 200'000;

  static caf::actor_system_config& config_for_tests(caf::actor_system_config& config) {
    actors::one_thread::configure(config);
    return config;
  }

  caf::scheduler::test_coordinator& coordinator() { return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler()); }
  void tell_of(caf::resumable& next);
  const demo_model& model() const { return options_.model ? *options_.model : demo(); }
  std::vector<std::uint32_t> reserves() const;
  void spawn_card(std::uint32_t number);
  void spawn_ledger();
  void spawn_gateway();
  void load_cards();
  result<void> keep(const bus::ledger_state& state);

  cast_options options_;
  time_point now_{std::chrono::hours(1)};
  std::optional<std::mt19937> random_;
  caf::actor_system_config config_;
  caf::actor_system system_{config_for_tests(config_)};
  actors::one_thread turns_{system_};
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

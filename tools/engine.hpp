// tools/engine.hpp: the parts wired together in one process: a model, its cards and the actors between them.
//
// ebbd puts a socket in front of it; `ebb run` and `ebb verify` talk to it directly. Both speak the messages of the bus.
#pragma once
#include "actors/card.hpp"
#include "actors/event_sink.hpp"
#include "actors/ledger.hpp"
#include "actors/process_watch.hpp"
#include "bus/client_id.hpp"
#include "bus/ledger_state.hpp"
#include "bus/messages.hpp"
#include "config/limits.hpp"
#include "config/settings.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include "kernels/gpu_module.hpp"
#include "model/chat_template.hpp"
#include "model/checkpoint.hpp"
#include "model/tokenizer.hpp"
#include "tools/gpu_choice.hpp"
#include "tools/layer_split.hpp"
#include "tools/profile_file.hpp"
#include "tools/wall_clock.hpp"
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

namespace ebb::tools {

// Where the ledger's state is kept from one daemon to the next.
struct state_store {
  std::optional<bus::ledger_state> before;                            // as the last daemon left it; none: nothing was kept
  std::function<result<void>(const bus::ledger_state&)> write_down;   // returns when it is safe on disk; empty: nothing is kept
  std::function<result<error>(error why)> set_aside;                  // of a `before` that this run cannot use: before anything is written in its place;
                                                                      // gives `why` with where it went; empty: nowhere
};

// What an engine sees of the world around it. A replay hands in another, so that a run repeats.
struct engine_world {
  actors::clock_fn now = actors::steady_clock();
  std::function<std::uint64_t()> unix_ms = unix_ms_now;
  actors::process_watch processes = actors::system_processes();
  gpu_loader gpus = kernels::load_cuda_module;
  std::function<void(std::chrono::milliseconds)> pause = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); };
  std::chrono::milliseconds stop_patience = limits::cards_end_timeout;  // for the actors to end
  std::function<void(std::thread)> left_behind = [](std::thread ends) { ends.detach(); };  // takes the thread in which those end that did not in time
  bool one_thread = false;  // nothing happens but by engine::run_once(), and no timer fires but by engine::pass(); stop() runs what it needs
};

struct engine_options {
  settings from;
  std::filesystem::path settings_file;                 // that `from` was read from; empty: none. Only the daemon looks at it
  std::string forced_isa;                              // the value of EBB_ISA; empty: the fastest
  std::function<void(double)> progress;                // share of the weights read, in [0, 1]; may be empty
  std::stop_token stop;                                // ends the start early
  state_store state;
  std::filesystem::path profile_folder;                // for a `profile` that names no file; empty: then none is kept
  std::function<void(const error&)> warn = [](const error&) {};  // of what does not keep it from working; called from threads of the engine
  engine_world world = {};
  actors::event_sink tell = actors::no_events();       // called from threads of the engine
  std::function<bus::subscribed()> events = [] { return bus::subscribed{}; };  // what `subscribe` answers
};

// Takes a reply on its way to a client; `text` says that the request came as text. Must not block.
using reply_sink = std::function<void(const bus::client_id& to, const bus::reply& what, bool text)>;

class engine {
 public:
  // Opens the model, takes the cards and fills their caches; returns when every card is ready.
  // Errors: whatever keeps a card from that, in words for the user; cancelled (`stop` was asked for). `sink` is called from threads of the engine.
  static result<std::unique_ptr<engine>> start(const engine_options& options, reply_sink sink);

  ~engine();  // stops first, if need be
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  // Answers every open request with `cancelled` and ends the cards. What is submitted from now on is dropped. Once. False: a card did not
  // end within the world's patience, since its device does not answer; the engine can be ended all the same.
  bool stop();

  // From any thread; the replies come through the sink.
  void submit(const bus::client_id& client, const bus::request& asked);
  void client_left(const bus::client_id& client);
  // How many requests were submitted and not looked at yet.
  std::size_t backlog() const noexcept;

  // --- for an engine of one thread (asserts)
  bool run_once();                                              // one message of one actor; false: all are at rest
  std::optional<std::chrono::nanoseconds> until_timer() const;  // none: no timer is set
  void pass(std::chrono::nanoseconds time);                     // timers whose time has come fire; `now` is the caller's to move

  const model::checkpoint& weights() const noexcept { return *weights_; }
  const model::tokenizer& vocabulary() const noexcept { return *vocabulary_; }
  const std::optional<error>& chat_obstacle() const noexcept { return chat_->obstacle; }  // why conversations are not written as the model's file says
  kernels::cpu::isa isa() const noexcept { return isa_; }
  unsigned n_threads() const noexcept { return pool_->n_threads(); }
  const std::vector<actors::card_options>& cards() const noexcept { return card_options_; }
  std::uint32_t context() const noexcept { return context_; }
  const std::vector<bus::card_report>& loaded() const noexcept;  // what each card held when it was ready
  const std::optional<error>& state_refused() const noexcept { return state_refused_; }  // why the state that was kept does not hold

 private:
  class cast;  // the actors and their system; apart, so that only one file here sees CAF

  engine();
  result<void> open_model(const engine_options& options);
  result<void> choose_devices(const engine_options& options);
  result<void> wait_for_gpus(const engine_options& options, const gpu_reader& read);
  result<std::vector<std::shared_ptr<kernels::gpu>>> take_gpus(const engine_options& options);
  result<void> plan_cards(const engine_options& options);
  result<void> restore_ledger(const engine_options& options);
  result<void> read_weights(const engine_options& options);
  void restore_profile(const engine_options& options);
  result<std::vector<layer_range>> share_out_layers(const settings& from) const;

  std::shared_ptr<const model::checkpoint> weights_;
  std::shared_ptr<const model::tokenizer> vocabulary_;
  std::optional<model::chosen_template> chat_;  // from open_model() on
  kernels::cpu::isa isa_{};
  std::uint32_t context_ = 0;
  chosen_cards chosen_;
  std::vector<kernels::gpu_description> gpus_;  // every GPU, as last read before the layers were split; empty: no card is one
  std::vector<actors::card_options> card_options_;
  std::optional<actors::ledger> ledger_;  // until the actor takes it over
  std::optional<error> state_refused_;
  std::optional<profile_file> profile_;   // none: none is kept
  std::shared_ptr<const std::vector<float>> heat_before_;  // [layers, experts], of it; null: nothing is known
  std::unique_ptr<kernels::cpu::worker_pool> pool_;  // outlives the cards

  std::function<void(std::thread)> left_behind_;
  std::unique_ptr<cast> cast_;
};

}  // namespace ebb::tools

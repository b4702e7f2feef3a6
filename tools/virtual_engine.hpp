// tools/virtual_engine.hpp: a daemon without a socket, in one thread and in virtual time: the same frames in, the same frames out.
//
// The real actors around real host cards, on CAF's testing scheduler. Time stands still but for move_to().
#pragma once
#include "config/settings.hpp"
#include "tools/engine.hpp"
#include "tools/replay_target.hpp"
#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace ebb::tools {

// What the header of a recording says in `about`, beside "settings", when it was made in virtual time.
inline constexpr std::pair<const char*, const char*> made_in_virtual_time{"time", "virtual"};

class virtual_engine final : public replay_target {
 public:
  // Every card of `from` becomes a host card. What is about other programs, files and access is left at its default: bus, http, journal,
  // state_dir, profile, auto_yield. Every process that a lease names is alive. `kept`: what an earlier engine left. Errors: those of engine::start.
  static result<std::unique_ptr<virtual_engine>> start(settings from, const std::string& forced_isa, std::uint64_t started_unix_ms, frame_sink sink,
                                                      std::optional<bus::ledger_state> kept = {});

  // A frame that is no request is answered at once. What was asked before a reply is finished first, unless an answer is under way, so
  // that whoever waits for a reply, and no longer, finds the engine in the same state each time. Commands in a row meet each other.
  result<void> take(const bus::client_id& from, bus::bytes_view frame) override;
  void client_left(const bus::client_id& who) override;

  // From timer to timer, and to rest after each, unless an answer is under way: then its tokens are not run ahead of.
  void move_to(std::chrono::nanoseconds at) override;
  bool run_once() override { return engine_->run_once(); }
  void run_to_rest();
  void stop() override;
  bool repeats_exactly() const override { return true; }

  std::chrono::nanoseconds now() const noexcept { return now_; }

 private:
  explicit virtual_engine(frame_sink sink) : sink_(std::move(sink)) {}
  void finish_before();
  void send(const bus::client_id& to, const bus::reply& what, bool text);

  frame_sink sink_;
  std::chrono::nanoseconds now_{0};
  std::set<std::pair<bus::client_id, bus::request_id>> answering_;  // each generate under way
  bool replied_ = false;  // since the last that came in
  std::uint64_t n_events_ = 0;
  std::unique_ptr<engine> engine_;  // last, since its end speaks to the others
};

// A virtual engine for each run of a journal, with the settings in its header. `model`: empty for the one that they name.
// Errors, beside those of start(): missing_key (no model), those of apply_toml and state_in.
target_factory in_virtual_time(std::string model, std::string forced_isa);

}  // namespace ebb::tools

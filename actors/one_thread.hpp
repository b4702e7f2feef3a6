// actors/one_thread.hpp: actors that take turns in the caller's thread, in an order and at times that repeat.
//
// For a system with CAF's testing scheduler, which knows no other thread: an actor spawned as detached would escape it. Time stands
// still but for pass(), and a delayed message comes when its time has come, and not before.
#pragma once
#include "actors/caf.hpp"
#include <caf/scheduler/test_coordinator.hpp>
#include <algorithm>
#include <chrono>
#include <optional>

namespace ebb::actors {

class one_thread {
 public:
  static void configure(caf::actor_system_config& config) { config.set("scheduler.policy", caf::atom("testing")); }

  // Pre: the system's settings went through configure().
  explicit one_thread(caf::actor_system& system) : jobs_(dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())) {}

  // One message of one actor. False: nobody has anything to do.
  bool run_once() {
    auto& waiting = jobs_.jobs;
    const auto next = waiting.empty() ? nullptr : waiting.front();
    const bool ran = jobs_.try_run_once();
    // The coordinator puts an actor that has more to do back in front, so a card that repeats would run on before anybody else.
    if (waiting.size() > 1 && waiting.front() == next) std::rotate(waiting.begin(), waiting.begin() + 1, waiting.end());
    return ran;
  }

  void run_to_rest() {
    while (run_once()) {
    }
  }

  // How long until the next delayed message or timeout; none is on its way: none.
  std::optional<std::chrono::nanoseconds> until_timer() const {
    auto& clock = jobs_.clock();
    if (clock.schedule().empty()) return std::nullopt;
    return std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(clock.schedule().begin()->first - clock.now()));
  }

  void pass(std::chrono::nanoseconds time) { jobs_.advance_time(time); }

 private:
  caf::scheduler::test_coordinator& jobs_;
};

}  // namespace ebb::actors

// tools/ebb/signal_forwarding.hpp: while it lives, the signals that would end ebb go on to a program that it runs, each of them once.
//
// What the kernel sends, such as a terminal's Ctrl-C, reaches the whole foreground group and so the program too; only what a process has
// sent to ebb is passed on. A signal's handler can reach nothing but a global, so there is one at a time.
#pragma once
#include <array>
#include <csignal>
#include <sys/types.h>

namespace ebb::tools {

class signal_forwarding {
 public:
  explicit signal_forwarding(pid_t to);
  // To be ended before the program is reaped: its number may be another's afterwards. Signals do again what they did before.
  ~signal_forwarding();
  signal_forwarding(const signal_forwarding&) = delete;
  signal_forwarding& operator=(const signal_forwarding&) = delete;

 private:
  static constexpr std::array forwarded{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, forwarded.size()> before_{};
};

}  // namespace ebb::tools

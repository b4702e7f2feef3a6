#include "tools/ebb/signal_forwarding.hpp"
#include "config/assert.hpp"
#include <cerrno>

namespace ebb::tools {
namespace {

volatile sig_atomic_t target = 0;  // 0: nobody

void forward(int signal, siginfo_t* from, void*) {
  const int code_before = errno;
  const bool from_a_process = from->si_code <= 0;  // as Linux has it: SI_USER, SI_QUEUE and SI_TKILL, while the kernel's own are above 0
  if (from_a_process && target != 0) ::kill(static_cast<pid_t>(target), signal);
  errno = code_before;
}

}  // namespace

signal_forwarding::signal_forwarding(pid_t to) {
  EBB_ASSERT(target == 0);
  target = to;
  struct sigaction chosen {};
  chosen.sa_sigaction = forward;
  chosen.sa_flags = SA_SIGINFO | SA_RESTART;
  for (std::size_t index = 0; index < forwarded.size(); ++index) ::sigaction(forwarded[index], &chosen, &before_[index]);
}

signal_forwarding::~signal_forwarding() {
  target = 0;
  for (std::size_t index = 0; index < forwarded.size(); ++index) ::sigaction(forwarded[index], &before_[index], nullptr);
}

}  // namespace ebb::tools

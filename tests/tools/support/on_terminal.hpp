// tests/tools/support/on_terminal.hpp: a program with a terminal of its own, in whose foreground it and what it starts run.
#pragma once
#include "tests/tools/support/demo.hpp"
#include <csignal>
#include <fcntl.h>
#include <pty.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ebb::tools::test {

class on_terminal {
 public:
  // A chroot or container without /dev/pts has none.
  static bool possible() {
    int ends[2];
    if (::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) != 0) return false;
    for (const int end : ends) ::close(end);
    return true;
  }

  // words[0] is the program's path.
  explicit on_terminal(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ < 0) throw std::runtime_error("no terminal");
    if (pid_ == 0) {
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::fcntl(terminal_, F_SETFL, O_NONBLOCK);
  }
  on_terminal(const on_terminal&) = delete;
  on_terminal& operator=(const on_terminal&) = delete;

  // The terminal goes too, and with it who runs there.
  ~on_terminal() {
    if (running()) ::kill(pid_, SIGKILL);
    if (!ended_) ::waitpid(pid_, nullptr, 0);
    ::close(terminal_);
  }

  void type(const std::string& keys) {
    if (::write(terminal_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) throw std::runtime_error("cannot type");
  }

  // All that came on the screen, with the terminal's own line ends and echo.
  const std::string& shown() {
    char next[4096];
    for (ssize_t got = 0; (got = ::read(terminal_, next, sizeof next)) > 0;) shown_.append(next, static_cast<std::size_t>(got));
    return shown_;
  }
  // Waits until the text has been shown so many times.
  bool shows(const std::string& text, std::size_t times = 1) {
    return comes_true([&] {
      std::size_t count = 0;
      for (std::size_t at = 0; (at = shown().find(text, at)) != std::string::npos; at += text.size()) ++count;
      return count >= times;
    });
  }

  int exit_code() {
    if (!comes_true([this] { return !running(); })) throw std::runtime_error("a program does not end; it has shown: " + shown());
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }
  pid_t pid() const noexcept { return pid_; }

 private:
  bool running() {
    if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return !ended_;
  }

  pid_t pid_ = -1;
  int terminal_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::string shown_;
};

}  // namespace ebb::tools::test

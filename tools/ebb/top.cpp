// tools/ebb/top.cpp: `ebb top`: a daemon's cards, rates and leases in a terminal, live.
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include "tools/ebb/commands.hpp"
#include "tools/ebb/reach.hpp"
#include "tools/exit_code.hpp"
#include "tools/stop_signals.hpp"
#include "tools/top_picture.hpp"
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <thread>
#include <unistd.h>
#include <variant>

namespace ebb::tools {
namespace {

using std::chrono::steady_clock;

// The terminal while it is ours: another screen, no cursor, keys without Enter. Given back as it was, whatever happens.
class screen {
 public:
  screen() {
    std::signal(SIGTSTP, [](int) { asked_to_rest = 1; });
    take();
  }
  ~screen() { give(); }
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;

  // Ctrl-Z: the shell has its terminal back until it says `fg`.
  void rest_if_asked() {
    if (asked_to_rest == 0) return;
    asked_to_rest = 0;
    give();
    std::raise(SIGSTOP);
    take();
  }

  static top_size size() {
    winsize seen{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &seen) != 0 || seen.ws_col == 0 || seen.ws_row == 0) return {};
    return {seen.ws_col, seen.ws_row};
  }

  // From the top left, each line to its end, so that nothing flickers.
  static void show(const std::vector<std::string>& lines) {
    std::string out = "\x1b[H";
    for (std::size_t i = 0; i < lines.size(); ++i) out += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[K";
    write_out(out + "\x1b[J");
  }

 private:
  void take() {
    is_ours_ = tcgetattr(STDIN_FILENO, &before_) == 0;
    if (is_ours_) {
      termios keys = before_;
      keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    }
    write_out("\x1b[?1049h\x1b[?25l");
  }
  void give() {
    write_out("\x1b[?25h\x1b[?1049l");
    if (is_ours_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  static void write_out(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  static inline volatile std::sig_atomic_t asked_to_rest = 0;
  termios before_{};
  bool is_ours_ = false;
};

template <class Body>
result<Body> ask_for(connection& daemon, bus::command what) {
  const auto answer = ask(daemon, std::move(what), limits::status_timeout);
  if (!answer) return fail(answer.error());
  if (const auto* body = std::get_if<Body>(&answer->body)) return *body;
  return fail(errc::internal, "the daemon answered another question than was asked");
}

// A model that is still being loaded has no cards yet.
result<top_sample> take(connection& daemon, steady_clock::time_point began) {
  top_sample now;
  auto status = ask_for<bus::status_report>(daemon, bus::status{});
  if (!status) return fail(status.error());
  now.status = *std::move(status);
  now.at_s = std::chrono::duration<double>(steady_clock::now() - began).count();
  if (now.status.state == "loading") return now;
  bus::lease list;
  list.action = "list";
  auto cards = ask_for<bus::cards_report>(daemon, bus::cards{});
  if (!cards) return fail(cards.error());
  auto leases = ask_for<bus::lease_report>(daemon, list);
  if (!leases) return fail(leases.error());
  auto experts = ask_for<bus::experts_report>(daemon, bus::experts{});
  if (!experts) return fail(experts.error());
  now.cards = *std::move(cards), now.leases = *std::move(leases), now.experts = *std::move(experts);
  return now;
}

// Whether somebody wants to see no more.
bool wait_for_end(screen& ours, const stop_signals& signals, std::chrono::milliseconds time) {
  const auto until = steady_clock::now() + time;
  while (!signals.token().stop_requested() && steady_clock::now() < until) {
    ours.rest_if_asked();
    pollfd keys{STDIN_FILENO, POLLIN, 0};
    if (poll(&keys, 1, 50) <= 0) continue;
    char key = 0;
    if (read(STDIN_FILENO, &key, 1) != 1) {
      std::this_thread::sleep_until(std::min(until, steady_clock::now() + std::chrono::milliseconds(50)));  // a closed input has no keys
      continue;
    }
    if (key == 'q' || key == 'Q') return true;
  }
  return signals.token().stop_requested();
}

int show_once(const daemon_choice& daemon, const top_options& options) {
  auto reached = reach(daemon);
  if (!reached) return report_no_daemon(reached.error());
  top_history history;
  const auto began = steady_clock::now();
  for (int i = 0; i < 2; ++i) {  // a rate needs two
    if (i > 0) std::this_thread::sleep_for(options.interval);
    auto now = take(**reached, began);
    if (!now) return report_error(now.error());
    history.add(*std::move(now));
  }
  for (const std::string& line : draw(history, {options.columns, SIZE_MAX})) std::puts(line.c_str());
  return exit_ok;
}

}  // namespace

int top(const daemon_choice& daemon, const top_options& options) {
  if (options.once || isatty(STDOUT_FILENO) == 0) return show_once(daemon, options);
  stop_signals signals;
  auto reached = reach(daemon);
  if (!reached) return report_no_daemon(reached.error());
  screen ours;
  top_history history;
  const auto began = steady_clock::now();
  do {
    if (!reached) reached = reach(daemon);
    auto now = reached ? take(**reached, began) : fail(reached.error());
    if (now) {
      history.add(*std::move(now));
      screen::show(draw(history, screen::size()));
    } else {
      screen::show({"ebb top: " + on_one_line(now.error().text), "Trying again; q quits."});
      reached = fail(now.error());  // a daemon that comes back is another one
    }
  } while (!wait_for_end(ours, signals, options.interval));
  return exit_ok;
}

}  // namespace ebb::tools

// tools/ebb/lease.cpp: `ebb lease`: VRAM for a program while it runs, and the leases that are held.
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include "tools/ebb/commands.hpp"
#include "tools/ebb/reach.hpp"
#include "tools/ebb/signal_forwarding.hpp"
#include "tools/exit_code.hpp"
#include "bus/to_json.hpp"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

namespace ebb::tools {
namespace {

template <class Number>
std::optional<Number> number_of(const std::string& text) {
  Number number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

result<bus::reply> ask_about_lease(connection& daemon, const bus::lease& asked) {
  return ask(daemon, asked, limits::resize_timeout + std::chrono::seconds(asked.wait_s.value_or(0)));
}

// The owner is another client's word.
void print_lease(const bus::lease_info& lease, bool ended) {
  std::printf("lease %llu  %u MiB on device %u  for %s  ", static_cast<unsigned long long>(lease.lease_id), lease.mib, lease.device,
              in_quotes(lease.owner).c_str());
  if (ended) std::printf("has ended");
  else std::printf("ends in %.0f s", lease.ends_in_s);
  if (!ended && lease.pid != 0) std::printf(" or with process %u", lease.pid);
  std::printf("\n");
}

void print_warning(const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "ebb: %s\n", on_one_line(text).c_str());
}

int print_answer(const result<bus::reply>& reply, const std::string& action, bool json) {
  if (!reply) return report_error(reply.error());
  const auto& report = std::get<bus::lease_report>(reply->body);
  if (json) {
    std::cout << bus::to_line(to_json(*reply)) << std::endl;
    return exit_ok;
  }
  for (const bus::lease_info& each : report.leases) print_lease(each, action == "release");
  if (report.leases.empty()) std::printf("no lease is held\n");
  print_warning(report.warning);
  return exit_ok;
}

bus::lease acquire_by(const lease_options& options, std::uint32_t mib) {
  bus::lease asked;
  asked.action = "acquire";
  asked.owner = options.owner;
  if (asked.owner.empty()) asked.owner = options.program.empty() ? "ebb lease" : options.program.front().substr(0, limits::lease_owner_bytes_max);
  asked.device = options.device.value_or(0);
  asked.mib = mib;
  asked.min_mib = options.min_mib;
  asked.ttl_s = options.ttl_s;
  asked.wait_s = options.wait_s;
  return asked;
}

// A program that waits to be let go, so that its number is known before the lease that ends with it is given.
class held_program {
 public:
  explicit held_program(const std::vector<std::string>& words) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[1]);
      run(ends[0], words);
    }
    ::close(ends[0]);
    gate_ = ends[1];
  }
  held_program(const held_program&) = delete;
  held_program& operator=(const held_program&) = delete;

  // Not let go: it ends without having run.
  ~held_program() {
    if (gate_ >= 0) ::close(gate_);
    if (pid_ > 0 && !ended_) ::waitpid(pid_, nullptr, 0);
  }

  bool made() const noexcept { return pid_ > 0; }
  pid_t pid() const noexcept { return pid_; }

  void let_go() {
    const char go = 1;
    static_cast<void>(!::write(gate_, &go, 1));
    ::close(gate_);
    gate_ = -1;
  }

  // Whether it has ended, after waiting so long at most. Its number is its own until it is reaped.
  bool ends_within(std::chrono::milliseconds time) const {
    const auto until = std::chrono::steady_clock::now() + time;
    do {
      siginfo_t seen{};
      if (::waitid(P_PID, static_cast<id_t>(pid_), &seen, WEXITED | WNOHANG | WNOWAIT) == 0 && seen.si_pid == pid_) return true;
      ::usleep(2000);
    } while (std::chrono::steady_clock::now() < until);
    return false;
  }

  // Waits for its end; its exit code as a shell says it: 128 + the signal.
  int reap() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  [[noreturn]] static void run(int gate, const std::vector<std::string>& words) {
    char go = 0;
    if (::read(gate, &go, 1) != 1) ::_exit(0);
    ::close(gate);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "ebb: %s: %s\n", arguments[0], std::strerror(errno));
    ::_exit(127);
  }

  pid_t pid_ = -1;
  int gate_ = -1;
  bool ended_ = false;
};

void renew(const daemon_choice& daemon, const lease_options& options, std::uint64_t id) {
  bus::lease asked;
  asked.action = "renew";
  asked.lease_id = id;
  asked.ttl_s = options.ttl_s;
  auto reached = reach(daemon);  // anew each time, since the daemon may have been started again
  const auto reply = reached ? ask_about_lease(**reached, asked) : fail(reached.error());
  if (!reply) std::fprintf(stderr, "ebb: lease %llu could not be renewed: %s\n", static_cast<unsigned long long>(id), on_one_line(reply.error().text).c_str());
}

void release(const daemon_choice& daemon, std::uint64_t id) {
  bus::lease asked;
  asked.action = "release";
  asked.lease_id = id;
  auto reached = reach(daemon);
  if (reached) static_cast<void>(ask_about_lease(**reached, asked));  // without a daemon nothing is lent either
}

int run_inside(const daemon_choice& daemon, const lease_options& options, std::uint32_t mib) {
  held_program program(options.program);
  if (!program.made()) return report_error({errc::internal, std::string("cannot start a process: ") + std::strerror(errno)});
  auto reached = reach(daemon);
  if (!reached) return report_no_daemon(reached.error());
  auto asked = acquire_by(options, mib);
  asked.pid = static_cast<std::uint32_t>(program.pid());
  const auto reply = ask_about_lease(**reached, asked);
  if (!reply) return report_error(reply.error());
  const auto& report = std::get<bus::lease_report>(reply->body);
  print_warning(report.warning);
  const std::uint64_t id = report.leases.front().lease_id;
  const std::chrono::milliseconds pause = std::chrono::seconds(options.ttl_s.value_or(limits::lease_ttl_s_default)) / 3;
  {
    const signal_forwarding to_program(program.pid());
    program.let_go();
    while (!program.ends_within(pause)) renew(daemon, options, id);
  }
  const int code = program.reap();
  release(daemon, id);
  return code;
}

// What means nothing to an action is refused, lest it be taken for done.
result<void> check_options(const lease_options& options, const std::string& action) {
  const std::pair<const char*, bool> without_meaning[] = {{"--device", options.device.has_value()},
                                                          {"--min", options.min_mib.has_value()},
                                                          {"--ttl", options.ttl_s && action != "renew"},
                                                          {"--wait", options.wait_s.has_value()},
                                                          {"--owner", !options.owner.empty()},
                                                          {"--", options.runs_program}};
  for (const auto& [name, is_given] : without_meaning) {
    if (is_given) return fail(errc::bad_value, std::string(name) + " has no meaning for `ebb lease " + action + "`; leave it out");
  }
  return {};
}

int about_lease(const daemon_choice& daemon, const lease_options& options, const std::string& action) {
  if (auto checked = check_options(options, action); !checked) return report_error(checked.error());
  bus::lease asked;
  asked.action = action;
  if (action != "list") {
    const auto id = options.words.size() == 2 ? number_of<std::uint64_t>(options.words[1]) : std::nullopt;
    if (!id) return report_error({errc::bad_value, "`ebb lease " + action + "` needs the number of one lease; `ebb lease list` shows them"});
    asked.lease_id = id;
    if (action == "renew") asked.ttl_s = options.ttl_s;
  } else if (options.words.size() > 1) {
    return report_error({errc::bad_value, "`ebb lease list` takes nothing more"});
  }
  auto reached = reach(daemon);
  if (!reached) return report_no_daemon(reached.error());
  return print_answer(ask_about_lease(**reached, asked), action, options.json);
}

}  // namespace

int lease(const daemon_choice& daemon, const lease_options& options) {
  if (options.words.empty()) {
    return report_error({errc::bad_value, "how many MiB, or what about leases? As in `ebb lease 8000 --device 1 -- COMMAND`, `ebb lease list`, "
                                          "`ebb lease renew 7`, `ebb lease release 7`; `ebb lease --help` says more"});
  }
  const std::string& first = options.words.front();
  if (first == "list" || first == "renew" || first == "release") return about_lease(daemon, options, first);
  const auto mib = number_of<std::uint32_t>(first);
  if (!mib || *mib == 0) {
    return report_error({errc::bad_value, in_quotes(first) + " is no number of MiB from 1 to " + std::to_string(UINT32_MAX) + "; `ebb lease 8000 --device 1 -- COMMAND`, or list, renew ID, release ID"});
  }
  if (options.words.size() > 1) return report_error({errc::bad_value, "what is to be run goes behind --, as in `ebb lease 8000 -- COMMAND`"});
  if (options.runs_program && options.program.empty()) {
    return report_error({errc::bad_value, "behind -- comes no command; name one, as in `ebb lease 8000 -- COMMAND`, or leave -- out for a lease that is not bound to one"});
  }
  if (options.runs_program) return run_inside(daemon, options, *mib);
  auto reached = reach(daemon);
  if (!reached) return report_no_daemon(reached.error());
  return print_answer(ask_about_lease(**reached, acquire_by(options, *mib)), "acquire", options.json);
}

}  // namespace ebb::tools

// Memory lent and taken back by `ebb` as a program: reserves, leases, and what is told of them.
#include "tests/tools/support/on_terminal.hpp"
#include "tests/tools/support/programs.hpp"
#include <algorithm>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;
using nlohmann::json;

TEST_CASE("in the middle of an answer ebb vram takes a card's segments out of the daemon's memory, and brings them back") {
#if defined(__SANITIZE_ADDRESS__)
  constexpr double tolerance_mib = 3;  // it keeps what is freed for a while, of every message
#else
  constexpr double tolerance_mib = 0.5;  // keys and values of tokens that come meanwhile, and what the kernel counts late
#endif
  running_ebbd daemon;
  child_process answer(daemon.asking({"generate", "-p", "In the beginning", "-n", "2000", "--temperature", "0", "--ignore-eos"}));
  REQUIRE(comes_true([&] { return !answer.out().empty() || !answer.running(); }));

  const json cards = json::parse(daemon.asked({"status", "--json"}).out)["cards"];
  const double cache_before_mib = cards[0]["expert_cache_mib"].get<double>();
  const double before_mib = daemon.rss_anon_mib();
  const outcome shrunk = daemon.asked({"vram", "100000", "0", "--json"});
  const double shrunk_mib = daemon.rss_anon_mib();
  const outcome regrown = daemon.asked({"vram", "-", "0", "--json"});
  const double regrown_mib = daemon.rss_anon_mib();
  CHECK(json::parse(daemon.asked({"status", "--json"}).out)["sessions"] == 1);

  REQUIRE(shrunk.code == exit_failed);
  REQUIRE(regrown.code == exit_ok);
  const double cache_shrunk_mib = json::parse(shrunk.out)["cards"][0]["expert_cache_mib"].get<double>();
  const double cache_regrown_mib = json::parse(regrown.out)["cards"][0]["expert_cache_mib"].get<double>();
  CHECK(cache_before_mib > 11);
  CHECK(cache_shrunk_mib < 1);
  CHECK(cache_regrown_mib == cache_before_mib);
  CHECK(before_mib - shrunk_mib >= cache_before_mib - cache_shrunk_mib - tolerance_mib);
  CHECK(regrown_mib - shrunk_mib >= cache_regrown_mib - cache_shrunk_mib - tolerance_mib);
}

TEST_CASE("ebb lease runs a program inside a lease, gives its exit code, and the lease ends with it") {
  running_ebbd daemon;
  const outcome ran = run_program({EBB_PROGRAM, "lease", "5", "--device", "1", "--connect", daemon.endpoint(), "--", "sh", "-c",
                                   std::string(EBB_PROGRAM) + " lease list --json --connect " + daemon.endpoint() + "; exit 7"});
  CHECK(ran.code == 7);
  const auto held = nlohmann::json::parse(ran.out);
  REQUIRE(held["leases"].size() == 1);
  CHECK(held["leases"][0]["mib"] == 5);
  CHECK(held["leases"][0]["device"] == 1);
  CHECK(held["leases"][0]["owner"] == "sh");
  CHECK(held["leases"][0].contains("pid"));
  CHECK(daemon.asked({"lease", "list"}).out == "no lease is held\n");
}

TEST_CASE("Ctrl-C in a terminal reaches the program inside a lease once, and a signal that is sent to ebb alone is passed on") {
  if (!on_terminal::possible()) {
    WARN("not tested: there are no pseudo-terminals here (/dev/pts)");
    return;
  }
  running_ebbd daemon;
  // Says for each signal whether it came from the kernel, as a terminal's do, or from a process.
  const std::string program =
      "import signal\n"
      "both = [signal.SIGINT, signal.SIGTERM]\n"
      "signal.pthread_sigmask(signal.SIG_BLOCK, both)\n"
      "print('ready', flush=True)\n"
      "while True:\n"
      "    got = signal.sigtimedwait(both, 60)\n"
      "    if not got: break\n"
      "    print(signal.Signals(got.si_signo).name, 'kernel' if got.si_code > 0 else 'process', flush=True)\n"
      "    if got.si_signo == signal.SIGTERM: break\n";
  on_terminal ebb({EBB_PROGRAM, "lease", "5", "--connect", daemon.endpoint(), "--", "/usr/bin/python3", "-c", program});
  REQUIRE(ebb.shows("ready"));
  for (std::size_t times = 1; times <= 2; ++times) {
    ebb.type("\x03");
    REQUIRE(ebb.shows("SIGINT kernel", times));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // what is passed on would have come by now
  }
  ::kill(ebb.pid(), SIGTERM);
  CHECK(ebb.exit_code() == 0);
  CHECK(ebb.shown().ends_with("SIGTERM process\r\n"));
  CHECK_THAT(ebb.shown(), !Catch::Contains("SIGINT process"));
  CHECK(daemon.asked({"lease", "list"}).out == "no lease is held\n");
}

TEST_CASE("an owner's name in a list of leases is quoted, so that it can neither forge a line nor command the terminal") {
  running_ebbd daemon;
  REQUIRE(daemon.asked({"lease", "2", "--owner", "x\x1b[2J\nlease 9  1 MiB"}).code == exit_ok);
  const outcome listed = daemon.asked({"lease", "list"});
  CHECK_THAT(listed.out, Catch::StartsWith("lease 1  2 MiB on device 0  for \"x\\x1b[2J\\x0alease 9  1 MiB\"  ends in "));
  CHECK(std::count(listed.out.begin(), listed.out.end(), '\n') == 1);
  CHECK(daemon.asked({"lease", "release", "1"}).out == "lease 1  2 MiB on device 0  for \"x\\x1b[2J\\x0alease 9  1 MiB\"  has ended\n");
}

TEST_CASE("a lease ends when its program is killed, though nobody releases it") {
  running_ebbd daemon;
  child_process program({EBB_PROGRAM, "lease", "5", "--connect", daemon.endpoint(), "--", "sleep", "100"});
  const auto pid_of_holder = [&]() -> pid_t {
    const auto held = nlohmann::json::parse(daemon.asked({"lease", "list", "--json"}).out);
    return held["leases"].empty() ? 0 : held["leases"][0]["pid"].get<pid_t>();
  };
  REQUIRE(comes_true([&] { return pid_of_holder() != 0; }));
  const pid_t holder = pid_of_holder();
  program.send(SIGKILL);  // first the one that would release it
  ::kill(holder, SIGKILL);
  CHECK(comes_true([&] { return pid_of_holder() == 0; }));
}

TEST_CASE("ebb lease says what it cannot do, and runs nothing then") {
  running_ebbd daemon;
  const outcome too_much = run_program({EBB_PROGRAM, "lease", "500", "--connect", daemon.endpoint(), "--", "echo", "ran"});
  CHECK(too_much.code == 1);
  CHECK(too_much.out.empty());
  CHECK_THAT(too_much.err, Catch::Contains("[short_of]") && Catch::Contains("nothing has changed"));
  check_usage_error(daemon.asked({"lease", "0"}), "no number of MiB");
  check_usage_error(daemon.asked({"lease", "release", "x"}), "number of one lease");
  CHECK_THAT(daemon.asked({"lease", "release", "99"}).err, Catch::Contains("[unknown_lease]"));
  const outcome no_program = run_program({EBB_PROGRAM, "lease", "1", "--connect", daemon.endpoint(), "--", "/no/such/program"});
  CHECK(no_program.code == 127);
  CHECK_THAT(no_program.err, Catch::Contains("/no/such/program"));
  CHECK(daemon.asked({"lease", "list"}).out == "no lease is held\n");
}

TEST_CASE("reserves and leases survive an ebbd that is killed and started again") {
  running_ebbd daemon;
  REQUIRE(daemon.asked({"vram", "3", "0"}).code == 0);
  REQUIRE(daemon.asked({"lease", "4", "--device", "1", "--ttl", "600"}).code == 0);
  const auto before = nlohmann::json::parse(daemon.asked({"status", "--json"}).out)["cards"];
  daemon.process().send(SIGKILL);
  REQUIRE(comes_true([&] { return !daemon.process().running(); }));
  child_process next(daemon.command());
  REQUIRE(comes_true([&] { return next.out().find("ebbd ready") != std::string::npos; }));
  const auto after = nlohmann::json::parse(daemon.asked({"status", "--json"}).out)["cards"];
  for (const std::size_t device : {0u, 1u}) {
    CHECK(after[device]["reserve_mib"] == before[device]["reserve_mib"]);
    CHECK(after[device]["expert_cache_mib"] == before[device]["expert_cache_mib"]);
  }
  const auto leases = nlohmann::json::parse(daemon.asked({"lease", "list", "--json"}).out)["leases"];
  REQUIRE(leases.size() == 1);
  CHECK(leases[0]["mib"] == 4);
}

TEST_CASE("ebb events shows what happens while it happens") {
  running_ebbd daemon;
  child_process listener(daemon.asking({"events", "--json", "-n", "3"}));
  // Its subscription arrives some time after it started, so the card is resized until it has seen enough.
  std::uint32_t reserve = 1;
  REQUIRE(comes_true([&] {
    daemon.asked({"vram", std::to_string(reserve = 1 + reserve % 8), "0"});
    return !listener.running();
  }));
  std::istringstream lines(listener.out());
  std::uint64_t last = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    CHECK(event["sequence"] > last);
    last = event["sequence"];
  }
  CHECK_THAT(listener.out(), Catch::Contains("\"event\":\"resized\""));
}

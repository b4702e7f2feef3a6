// The daemon as a program: how it starts, ends, is killed, and whom it lets in.
#include "bus/expert_profile.hpp"
#include "tests/tools/support/programs.hpp"

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;
using nlohmann::json;

namespace {

// Of the demo model, which goes on with texts and knows no conversations.
void check_says_only_that_there_is_no_template(const std::string& errors) {
  CHECK_THAT(errors, Catch::StartsWith("ebbd: conversations are written in a plain form (docs/CHAT_TEMPLATE.md): ") && Catch::Contains("tokenizer.chat_template"));
  CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
}

}  // namespace

TEST_CASE("ebbd says on one line when it is ready and where, and a signal ends it well, with its socket file gone") {
  const int signal = GENERATE(SIGTERM, SIGINT);
  running_ebbd daemon;
  const std::string ready = daemon.process().out();
  CHECK_THAT(ready, Catch::StartsWith("ebbd ready: " + demo_model + " on 2 card(s), 1 thread(s), ") && Catch::EndsWith("listening at " + daemon.endpoint() + "\n"));
  CHECK(std::filesystem::exists(daemon.socket_file()));
  daemon.process().send(signal);
  CHECK(daemon.process().exit_code() == exit_ok);
  CHECK_FALSE(std::filesystem::exists(daemon.socket_file()));
  CHECK_THAT(daemon.process().out(), Catch::EndsWith(signal == SIGTERM ? "ebbd stopping: SIGTERM\n" : "ebbd stopping: SIGINT\n"));
  check_says_only_that_there_is_no_template(daemon.process().err());
}

TEST_CASE("ebbd ends well in the middle of an answer, whose client learns of it") {
  running_ebbd daemon;
  child_process client(daemon.asking({"generate", "-p", "In the beginning", "-n", "2000", "--ignore-eos"}));
  REQUIRE(comes_true([&] { return !client.out().empty() || !client.running(); }));
  daemon.process().send(SIGTERM);
  CHECK(daemon.process().exit_code() == exit_ok);
  CHECK(client.exit_code() == exit_failed);
  CHECK_THAT(client.err(), Catch::Contains("[cancelled]") || Catch::Contains("[refused]"));
}

TEST_CASE("an ebbd that was killed leaves nothing that keeps the next one from starting, but a living one does") {
  running_ebbd daemon;
  const outcome second = run_program(daemon.command());
  CHECK(second.code == exit_failed);
  CHECK_THAT(second.err, Catch::StartsWith("ebbd: ") && Catch::Contains("[refused]"));
  daemon.process().send(SIGKILL);
  CHECK(daemon.process().exit_code() == -SIGKILL);
  child_process next(daemon.command());
  CHECK(comes_true([&] { return !next.running() || next.out().find("ebbd ready") != std::string::npos; }));
  CHECK(next.running());
  CHECK(daemon.asked({"status"}).code == exit_ok);
  next.send(SIGTERM);
  CHECK(next.exit_code() == exit_ok);
}

TEST_CASE("ebbd keeps which experts were hot: a signal writes them down, a kill leaves what was written, a torn file is named and replaced") {
  running_ebbd daemon;
  const auto end = [](child_process& process, int signal) {
    process.send(signal);
    return process.exit_code();
  };
  const auto again = [&] {
    auto process = std::make_unique<child_process>(daemon.command());
    REQUIRE(comes_true([&] { return !process->running() || process->out().find("ebbd ready") != std::string::npos; }));
    return process;
  };
  const auto generate = [&] { return daemon.asked({"generate", "-p", "In the beginning", "-n", "20", "--ignore-eos"}).code; };
  const std::string size = std::to_string(std::filesystem::file_size(demo_model));
  const std::filesystem::path file = daemon.socket_file().parent_path() / "state" / ("chapbook-q4_k_m.gguf-" + size + ".profile");
  REQUIRE(generate() == exit_ok);
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK(end(daemon.process(), SIGTERM) == exit_ok);
  const std::string written = content_of(file);
  CHECK(written.size() > 6 * 32);

  const auto killed = again();
  REQUIRE(generate() == exit_ok);
  CHECK(end(*killed, SIGKILL) == -SIGKILL);
  check_says_only_that_there_is_no_template(killed->err());
  CHECK(content_of(file) == written);

  std::filesystem::resize_file(file, written.size() / 2);
  const auto last = again();
  CHECK(end(*last, SIGTERM) == exit_ok);
  CHECK_THAT(last->err(), Catch::Contains(file.string()) && Catch::Contains("ignored"));
  CHECK(bus::decode_profile(bus::as_bytes(content_of(file))));
}

TEST_CASE("with keys made by `ebb keys` a client reaches a daemon over tcp, and one whose key is not added is told what to do") {
  bus::test::temporary_folder folder;
  const std::string server = (folder / "server.toml").string(), laptop = (folder / "laptop.toml").string(), guest = (folder / "guest.toml").string();
  CHECK_THAT(ebb_runs({"keys", "server", server}).out, Catch::Contains("curve_keys = \"" + server + "\""));
  CHECK_THAT(ebb_runs({"keys", "client", laptop, "--server", server, "--add"}).out, Catch::Contains("added it to " + server));
  const outcome by_hand = ebb_runs({"keys", "client", guest, "--server", server});
  CHECK_THAT(by_hand.out, Catch::Contains("add this line to `clients` in " + server));
  CHECK(content_of(server).find(by_hand.out.substr(by_hand.out.find("  \""))) == std::string::npos);
  CHECK(std::filesystem::status(laptop).permissions() == std::filesystem::perms(0600));
  CHECK(std::filesystem::status(server).permissions() == std::filesystem::perms(0600));

  // 0.0.0.0: an address that would be refused without keys.
  child_process daemon({EBBD_PROGRAM, demo_model, "--set", "threads=1", "--set", "bus.listen=tcp://0.0.0.0:0", "--set", "bus.curve_keys=" + server});
  REQUIRE(comes_true([&] { return !daemon.running() || daemon.out().find("\n") != std::string::npos; }));
  const std::string ready = daemon.out();
  INFO(ready << daemon.err());
  const auto colon = ready.rfind(':');
  REQUIRE(colon != std::string::npos);
  const std::string address = "tcp://127.0.0.1:" + ready.substr(colon + 1, ready.find('\n') - colon - 1);
  CHECK_THAT(ebb_runs({"status", "--connect", address, "--keys", laptop}).out, Catch::Contains("ready"));

  const outcome unknown = ebb_runs({"status", "--connect", address, "--keys", guest});
  CHECK(unknown.code == exit_no_daemon);
  CHECK_THAT(unknown.err, Catch::Contains("does not let this client in") && Catch::Contains("`clients`"));
  const outcome bare = ebb_runs({"status", "--connect", address});
  CHECK(bare.code == exit_no_daemon);
  CHECK_THAT(bare.err, Catch::Contains("--keys"));

  std::filesystem::permissions(laptop, std::filesystem::perms(0644));
  check_usage_error(ebb_runs({"status", "--connect", address, "--keys", laptop}), "chmod 600 " + laptop);
}

TEST_CASE("`ebb keys` never writes over a file, and ebbd does not start with keys that it cannot trust") {
  bus::test::temporary_folder folder;
  const std::string server = (folder / "server.toml").string();
  REQUIRE(ebb_runs({"keys", "server", server}).code == exit_ok);
  const std::string before = content_of(server);
  CHECK_THAT(ebb_runs({"keys", "server", server}).err, Catch::Contains("there is such a file already"));
  CHECK_THAT(ebb_runs({"keys", "client", server, "--server", server, "--add"}).err, Catch::Contains("there is such a file already"));
  CHECK(content_of(server) == before);
  check_usage_error(ebb_runs({"keys", "client", (folder / "x").string(), "--server", "/no/such/file"}), "/no/such/file");
  check_usage_error(ebb_runs({"keys"}), "subcommand");

  const words with_keys = {EBBD_PROGRAM, demo_model, "--set", "bus.listen=tcp://127.0.0.1:0", "--set", "bus.curve_keys=" + server};
  std::filesystem::permissions(server, std::filesystem::perms(0640));
  const outcome open_to_others = run_program(with_keys);
  CHECK(open_to_others.code != exit_ok);
  CHECK_THAT(open_to_others.err, Catch::Contains("setting `bus.curve_keys`") && Catch::Contains("chmod 600 " + server));
  const outcome no_keys = run_program({EBBD_PROGRAM, demo_model, "--set", "bus.listen=tcp://0.0.0.0:0"});
  CHECK(no_keys.code != exit_ok);
  CHECK_THAT(no_keys.err, Catch::Contains("ebb keys server"));
}

TEST_CASE("ebbd refuses bad arguments and settings, and says what keeps it from starting") {
  check_usage_error(run_program({EBBD_PROGRAM, demo_model, "--set", "paralel=2"}), "did you mean");
  check_usage_error(run_program({EBBD_PROGRAM, demo_model, "--set", "parallel=0"}), "parallel = 0 is not allowed");
  check_usage_error(run_program({EBBD_PROGRAM, demo_model, "--config", "/no/such/file.toml"}), "/no/such/file.toml");
  check_usage_error(run_program({EBBD_PROGRAM, demo_model, "--frobnicate"}), "--frobnicate");
  check_usage_error(run_program({EBBD_PROGRAM, demo_model}, {{"EBB_PARALEL", "2"}}), "EBB_PARALEL");
  bus::test::temporary_folder folder;
  const std::string listen = "bus.listen=ipc://" + (folder / "commands").string();
  const outcome no_file = run_program({EBBD_PROGRAM, "no_such_file.gguf", "--set", listen});
  CHECK(no_file.code == exit_usage);
  CHECK_THAT(no_file.err, Catch::Contains("no_such_file.gguf") && Catch::Contains("[file_unreadable]"));
  const outcome cuda = run_program({EBBD_PROGRAM, demo_model, "--set", listen, "--set", "cards=cuda:999"});
  CHECK(cuda.code == exit_usage);
  CHECK_THAT(cuda.err, Catch::Contains("`cards`") && Catch::Contains("[unknown_device]"));
  const outcome isa = run_program({EBBD_PROGRAM, demo_model, "--set", listen}, {{"EBB_ISA", "sse9"}});
  CHECK(isa.code == exit_usage);
  CHECK_THAT(isa.err, Catch::Contains("EBB_ISA is \"sse9\""));
}

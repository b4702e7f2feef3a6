// The built programs, run as processes: what they print, the exit codes they end with, and what the kernel counts as their memory.
#include "bus/expert_profile.hpp"
#include "tests/tools/support/child_process.hpp"
#include "tools/exit_code.hpp"
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;
using nlohmann::json;

namespace {

using words = std::vector<std::string>;

const std::string demo_model = EBB_DEMO_MODEL;

outcome ebb_runs(words arguments, const variables& changed = {}) {
  arguments.insert(arguments.begin(), EBB_PROGRAM);
  return run_program(std::move(arguments), changed);
}

// An ebbd with the demo model on two host cards, in a folder of its own.
class running_ebbd {
 public:
  running_ebbd() : process_(command()) {
    const bool ready = comes_true([&] { return !process_.running() || process_.out().find("ebbd ready") != std::string::npos; });
    if (!ready || !process_.running()) throw std::runtime_error("ebbd did not start: " + process_.err());
  }

  words command() const {
    return {EBBD_PROGRAM, demo_model, "--set", "cards=host,host", "--set", "vram_segment_mib=1", "--set", "threads=1", "--set", "bus.listen=" + endpoint(), "--set", "state_dir=" + (folder_ / "state").string()};
  }
  std::string endpoint() const { return "ipc://" + socket_file().string(); }
  std::filesystem::path socket_file() const { return folder_ / "commands"; }
  child_process& process() { return process_; }

  // A subcommand of ebb that asks this daemon.
  words asking(words arguments) const {
    arguments.insert(arguments.begin(), EBB_PROGRAM);
    arguments.insert(arguments.end(), {"--connect", endpoint()});
    return arguments;
  }
  outcome asked(words arguments) const { return run_program(asking(std::move(arguments))); }

  double rss_anon_mib() const {
    std::ifstream status("/proc/" + std::to_string(process_.pid()) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) / 1024;
    }
    throw std::runtime_error("no RssAnon");
  }

 private:
  bus::test::temporary_folder folder_;
  child_process process_;
};

std::vector<json> lines_as_json(const std::string& text) {
  std::vector<json> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    json parsed = json::parse(line, nullptr, false);
    REQUIRE_FALSE(parsed.is_discarded());
    all.push_back(std::move(parsed));
  }
  return all;
}

std::vector<float> floats_of(const std::filesystem::path& path) {
  const std::string bytes = content_of(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// What follows "hash of the logits " on stderr.
std::string hash_in(const std::string& err) {
  const std::string before = "hash of the logits ";
  const auto at = err.find(before);
  return at == std::string::npos ? "none" : err.substr(at + before.size(), 32);
}

void check_usage_error(const outcome& ended, const std::string& names) {
  CHECK(ended.code == exit_usage);
  CHECK_THAT(ended.out + ended.err, Catch::Contains(names));
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
  CHECK(daemon.process().err().empty());
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
  CHECK(killed->err().empty());
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
  const outcome cuda = run_program({EBBD_PROGRAM, demo_model, "--set", listen, "--set", "cards=cuda:0"});
  CHECK(cuda.code == exit_failed);
  CHECK_THAT(cuda.err, Catch::Contains("\"cuda:0\" cannot be used") && Catch::Contains("[refused]"));
  const outcome isa = run_program({EBBD_PROGRAM, demo_model, "--set", listen}, {{"EBB_ISA", "sse9"}});
  CHECK(isa.code == exit_usage);
  CHECK_THAT(isa.err, Catch::Contains("EBB_ISA is \"sse9\""));
}

TEST_CASE("ebb generate answers from the daemon what ebb run answers by itself, whatever the cards") {
  const running_ebbd daemon;
  const words asked{"-p", "In the beginning", "-n", "40", "--temperature", "0", "--hash", "--ignore-eos"};
  words remote{"generate"};
  remote.insert(remote.end(), asked.begin(), asked.end());
  words local{"run", demo_model, "--cards", "3"};
  local.insert(local.end(), asked.begin(), asked.end());
  const outcome from_daemon = daemon.asked(remote);
  const outcome from_run = ebb_runs(local);
  CHECK(from_daemon.code == exit_ok);
  CHECK(from_run.code == exit_ok);
  CHECK(from_daemon.out.size() > 40);
  CHECK(from_daemon.out.ends_with("\n"));
  CHECK(from_daemon.out == from_run.out);
  CHECK_THAT(from_daemon.err, Catch::Contains("40 tokens at ") && Catch::Contains("ended by length"));
  CHECK(hash_in(from_daemon.err).find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(hash_in(from_daemon.err) == hash_in(from_run.err));
}

TEST_CASE("ebb run --json prints a JSON object a line: the tokens, then what they cost") {
  const outcome ended = ebb_runs({"run", demo_model, "-p", "My fellow citizens", "-n", "20", "--ignore-eos", "--hash", "--json"});
  CHECK(ended.code == exit_ok);
  CHECK(ended.err.empty());
  const auto lines = lines_as_json(ended.out);
  REQUIRE(lines.size() == 21);
  std::string text;
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(lines[i]["type"] == "token");
    CHECK(lines[i]["index"] == i);
    text += lines[i]["text"].get<std::string>();
  }
  CHECK(lines[20]["type"] == "done");
  CHECK(lines[20]["generated_tokens"] == 20);
  CHECK(lines[20]["finish"] == "length");
  CHECK(lines[20]["hash"].get<std::string>().size() == 32);
  const outcome plain = ebb_runs({"run", demo_model, "-p", "My fellow citizens", "-n", "20", "--ignore-eos"});
  CHECK(plain.out == text + "\n");
}

TEST_CASE("ebb vram prints what each card holds, and - is the reserve of the start") {
  const running_ebbd daemon;
  const outcome one = daemon.asked({"vram", "5", "1"});
  CHECK(one.code == exit_ok);
  CHECK_THAT(one.out, Catch::StartsWith("card 1  reserve 5 MiB  free ") && Catch::Contains("  took "));
  CHECK_THAT(one.out, !Catch::Contains("SHORT"));
  const outcome beyond = daemon.asked({"vram", "100000"});
  CHECK(beyond.code == exit_failed);
  CHECK_THAT(beyond.out, Catch::StartsWith("card 0  reserve 100000 MiB") && Catch::Contains("\ncard 1  reserve 100000 MiB") &&
                             Catch::Contains("SHORT by ") && Catch::Contains("at its floor"));
  CHECK_THAT(daemon.asked({"vram", "-", "0"}).out, Catch::StartsWith("card 0  reserve 0 MiB  free 0.0 MiB  experts 96 of 96  "));
  const outcome all = daemon.asked({"vram", "--json"});
  CHECK(all.code == exit_ok);
  const json report = lines_as_json(all.out).at(0);
  REQUIRE(report["cards"].size() == 2);
  for (const auto& card : report["cards"]) {
    CHECK(card["reserve_mib"] == 0);
    CHECK(card["short_mib"] == 0);
    CHECK(card["expert_slots"] == card["expert_slots_full"]);
  }
}

TEST_CASE("ebb vram refuses what is no number of MiB and a card that does not exist, and changes nothing") {
  const running_ebbd daemon;
  check_usage_error(daemon.asked({"vram", "abc"}), "\"abc\" is no number of MiB; give a whole number from 0, or - for the reserve of the start");
  check_usage_error(daemon.asked({"vram", "1.5"}), "\"1.5\" is no number of MiB");
  check_usage_error(daemon.asked({"vram", "-1"}), "-1");
  check_usage_error(daemon.asked({"vram", "4294967296"}), "\"4294967296\" is no number of MiB");
  check_usage_error(daemon.asked({"vram", "5", "x"}), "device");
  check_usage_error(daemon.asked({"vram", "5", "2"}), "no device 2 in this run; devices are 0 to 1");
  check_usage_error(daemon.asked({"vram", "5", "1", "7"}), "7");
  const json now = json::parse(daemon.asked({"status", "--json"}).out);
  for (const auto& card : now["cards"]) CHECK(card["reserve_mib"] == 0);
}

TEST_CASE("ebb plan says what a reserve would cost, for people and as JSON, and changes nothing") {
  const running_ebbd daemon;
  const outcome unused = daemon.asked({"plan", "5", "1"});
  CHECK(unused.code == exit_ok);
  CHECK_THAT(unused.out, Catch::StartsWith("card 0  reserve 0 MiB  experts 96  ") && Catch::Contains("\ncard 1  reserve 5 MiB  experts ") &&
                             Catch::Contains("tokens/s not measured yet"));
  REQUIRE(daemon.asked({"generate", "-p", "In the beginning", "-n", "40", "--ignore-eos"}).code == exit_ok);
  const outcome used = daemon.asked({"plan", "100000", "--json"});
  CHECK(used.code == exit_ok);
  const json report = lines_as_json(used.out).at(0);
  CHECK(report["hit_rate"] == 0);
  CHECK(report["hit_rate_now"] == 1);
  CHECK(report["tokens_per_s_now"] > 0);
  for (const auto& card : report["cards"]) CHECK(card["short_mib"] > 0);
  check_usage_error(daemon.asked({"plan", "abc"}), "\"abc\" is no number of MiB");
  const json now = json::parse(daemon.asked({"status", "--json"}).out);
  for (const auto& card : now["cards"]) CHECK(card["expert_slots"] == card["expert_slots_full"]);
}

TEST_CASE("ebb status shows the model and the cards, for people and as JSON") {
  const running_ebbd daemon;
  const outcome shown = daemon.asked({"status"});
  CHECK(shown.code == exit_ok);
  CHECK_THAT(shown.out, Catch::StartsWith("ebbd 0.1.0  ready") && Catch::Contains(demo_model) && Catch::Contains("sessions 0 of 4, 0 waiting") &&
                            Catch::Contains("\ncard 0  reserve 0 MiB") && Catch::Contains("host layers 0-2") &&
                            Catch::Contains("\ncard 1  reserve 0 MiB") && Catch::Contains("host layers 3-5"));
  const outcome ended = daemon.asked({"status", "--json"});
  CHECK(ended.code == exit_ok);
  const json now = lines_as_json(ended.out).at(0);
  CHECK(now["state"] == "ready");
  CHECK(now["model"] == demo_model);
  REQUIRE(now["cards"].size() == 2);
  CHECK(now["cards"][1]["layer_begin"] == 3);
  CHECK(now["cards"][1]["layer_end"] == 6);
}

TEST_CASE("a request that the engine refuses ends with the exit code of its error, as text and as JSON") {
  const running_ebbd daemon;
  const words asked{"generate", "-p", "a", "--temperature", "-1"};
  check_usage_error(daemon.asked(asked), "temperature");
  words as_json = asked;
  as_json.push_back("--json");
  const outcome ended = daemon.asked(as_json);
  CHECK(ended.code == exit_usage);
  CHECK(lines_as_json(ended.out).at(0)["code"] == "bad_value");
  check_usage_error(daemon.asked({"generate", "-p", ""}), "prompt");
}

TEST_CASE("without a daemon ebb says how to get one and ends with 3") {
  bus::test::temporary_folder folder;
  const variables empty_runtime_folder{{"XDG_RUNTIME_DIR", folder.path().string()}};
  const std::vector<words> all{{"status"}, {"vram", "5"}, {"generate", "-p", "a"}};
  for (const words& arguments : all) {
    INFO(arguments[0]);
    const outcome ended = ebb_runs(arguments, empty_runtime_folder);
    CHECK(ended.code == exit_no_daemon);
    CHECK(ended.out.empty());
    CHECK_THAT(ended.err, Catch::StartsWith("ebb: no daemon at ipc://" + folder.path().string()) && Catch::Contains("start ebbd"));
  }
  CHECK(ebb_runs({"status", "--connect", "ipc://" + (folder / "nobody").string()}).code == exit_no_daemon);
  check_usage_error(ebb_runs({"status", "--connect", "carrier-pigeon://loft"}), "carrier-pigeon");
}

TEST_CASE("ebb inspect says what a file holds, what fits, and whether it runs") {
  const outcome shown = ebb_runs({"inspect", demo_model, "--mib", "8"});
  CHECK(shown.code == exit_ok);
  CHECK_THAT(shown.out, Catch::Contains("qwen3moe") && Catch::Contains("6 layers of 32, 4 used a token") && Catch::Contains("in 8 MiB fit 65 of 192 experts") &&
                            !Catch::Contains("cannot be run"));
  const outcome ended = ebb_runs({"inspect", demo_model, "--json", "--keys", "--mib", "8", "--mib", "100"});
  CHECK(ended.code == exit_ok);
  const json seen = json::parse(ended.out);
  CHECK(seen["runs"] == true);
  CHECK(seen["layers"] == 6);
  CHECK(seen["experts"] == 32);
  CHECK(seen["experts_used"] == 4);
  CHECK(seen["fits"].size() == 2);
  CHECK(seen["keys"].contains("general.architecture"));
}

TEST_CASE("ebb inspect --json is JSON even where the file's own name is no UTF-8") {
  bus::test::temporary_folder folder;
  std::string file = content_of(demo_model);
  const auto name = file.find("Chapbook");
  REQUIRE(name != std::string::npos);
  file[name] = '\xff';
  const auto path = folder / "named_badly.gguf";
  std::ofstream(path, std::ios::binary) << file;
  const outcome ended = ebb_runs({"inspect", path.string(), "--json"});
  CHECK(ended.code == exit_ok);
  const json seen = json::parse(ended.out, nullptr, false);
  REQUIRE_FALSE(seen.is_discarded());
  CHECK_THAT(seen["name"].get<std::string>(), Catch::StartsWith("\xef\xbf\xbdhapbook"));
}

TEST_CASE("ebb logits writes what an exact program computes, up to the rounding of activations") {
  bus::test::temporary_folder folder;
  const std::string golden = std::string(EBB_TEST_DATA) + "/chapbook-q4_k_m";
  const json prompt = json::parse(content_of(golden + "/reference.json"))["prompts"][0];
  json ids = prompt["prompt_ids"];
  for (const auto& id : prompt["greedy_ids"]) ids.push_back(id);
  std::ofstream(folder / "ids.json") << ids;
  const std::string out = (folder / "logits.f32").string();
  const outcome ended = ebb_runs({"logits", demo_model, "--ids", (folder / "ids.json").string(), "--out", out});
  CHECK(ended.code == exit_ok);
  CHECK(ended.out == out + ": float32 [47, 4096]\n");

  const auto written = floats_of(out);
  const auto exact = floats_of(golden + "/logits-0.f32");
  REQUIRE(written.size() == 47 * 4096);
  REQUIRE(exact.size() == written.size());
  double error_max = 0;
  double error_sum = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(written[i]) - exact[i]);
    error_max = std::max(error_max, difference);
    error_sum += difference;
  }
  CHECK(error_max < 0.07);  // 0.060; logits span -17 to 13, and the rows before the output matrix have 8 bits
  CHECK(error_sum / static_cast<double>(exact.size()) < 0.01);
}

TEST_CASE("ebb logits refuses ids and files that it cannot use") {
  bus::test::temporary_folder folder;
  const auto with_ids = [&](const std::string& ids, const std::string& out = "logits.f32") {
    std::ofstream(folder / "ids.json") << ids;
    return ebb_runs({"logits", demo_model, "--ids", (folder / "ids.json").string(), "--out", (folder / out).string()});
  };
  check_usage_error(with_ids("[40, 77"), "is no JSON");
  check_usage_error(with_ids("{}"), "is no list");
  check_usage_error(with_ids("[]"), "is an empty list");
  check_usage_error(with_ids("[40, \"a\"]"), "holds \"a\"");
  check_usage_error(with_ids("[40, -1]"), "holds -1");
  check_usage_error(with_ids("[40, 4096]"), "4096");
  CHECK(with_ids("[40]", "no_such_folder/logits.f32").code == exit_usage);
  CHECK(with_ids("[40]").code == exit_ok);
  check_usage_error(ebb_runs({"logits", demo_model, "--ids", "/no/such/ids.json", "--out", "/tmp/never"}), "/no/such/ids.json");
}

TEST_CASE("files that are missing or no GGUF, and arguments that are wrong, end with 2") {
  const std::string no_gguf = std::string(EBB_TEST_DATA) + "/held_out.txt";
  bus::test::temporary_folder folder;
  std::ofstream(folder / "ids.json") << "[40]";
  const std::string ids = (folder / "ids.json").string();
  const auto commands_on = [&](const std::string& file) {
    return std::vector<words>{{"inspect", file},
                              {"run", file, "-p", "a"},
                              {"logits", file, "--ids", ids, "--out", (folder / "out").string()},
                              {"verify", file},
                              {"bench", file}};
  };
  for (const words& arguments : commands_on("no_such_file.gguf")) {
    INFO(arguments[0]);
    check_usage_error(ebb_runs(arguments), "[file_unreadable]");
  }
  for (const words& arguments : commands_on(no_gguf)) {
    INFO(arguments[0]);
    check_usage_error(ebb_runs(arguments), "[not_gguf]");
  }
  check_usage_error(ebb_runs({}), "subcommand");
  check_usage_error(ebb_runs({"frobnicate"}), "frobnicate");
  check_usage_error(ebb_runs({"run", demo_model}), "--prompt");
  check_usage_error(ebb_runs({"run", demo_model, "-p", "a", "-n", "0"}), "--max-tokens");
  check_usage_error(ebb_runs({"run", demo_model, "-p", "a", "--set", "paralel=2"}), "did you mean");
  check_usage_error(ebb_runs({"run", demo_model, "-p", "a", "--cards", "7"}), "7 cards for a model of 6 layers");
  check_usage_error(ebb_runs({"run", demo_model, "-p", "a"}, {{"EBB_ISA", "sse9"}}), "EBB_ISA");
}

TEST_CASE("help of every command ends well, with examples and the exit codes; so does the version") {
  const outcome all = ebb_runs({"--help"});
  CHECK(all.code == exit_ok);
  const words commands{"run", "generate", "vram", "plan", "status", "inspect", "logits", "verify", "bench"};
  for (const std::string& command : commands) {
    INFO(command);
    CHECK_THAT(all.out, Catch::Contains("\n  " + command));
    const outcome ended = ebb_runs({command, "--help"});
    CHECK(ended.code == exit_ok);
    CHECK_THAT(ended.out, Catch::Contains("Examples:\n") && Catch::Contains("ebb " + command) && Catch::Contains("Exit codes: 0 "));
  }
  const outcome daemon = run_program({EBBD_PROGRAM, "--help"});
  CHECK(daemon.code == exit_ok);
  CHECK_THAT(daemon.out, Catch::Contains("Examples:\n") && Catch::Contains("ebbd --config") && Catch::Contains("Exit codes: 0 "));
  CHECK(ebb_runs({"--version"}).out == "ebb 0.1.0\n");
  CHECK(run_program({EBBD_PROGRAM, "--version"}).out == "ebbd 0.1.0\n");
}

TEST_CASE("ebb verify prints a row a condition, and ends with 0 when every hash is the same") {
  const outcome ended = ebb_runs({"verify", demo_model, "--set", "vram_segment_mib=1", "--cards", "2", "-n", "4", "--resizes", "2", "--json"});
  CHECK(ended.code == exit_ok);
  const auto rows = lines_as_json(ended.out);
  CHECK(rows.size() >= 6);
  for (const json& row : rows) {
    CHECK(row["same"] == true);
    CHECK(row["hash"] == rows[0]["hash"]);
  }
}

TEST_CASE("ebb bench measures a tiny run") {
  const outcome ended = ebb_runs({"bench", demo_model, "-n", "2", "--prompt-tokens", "8", "--repeats", "1", "--json"});
  CHECK(ended.code == exit_ok);
  const json seen = json::parse(ended.out);
  CHECK(seen["decode_tokens"] == 2);
  CHECK(seen["decode_tokens_per_s"]["median"] > 0);
  CHECK(seen["prompt_tokens_per_s"]["median"] > 0);
  CHECK(seen["hit_rate"] == 1);
}

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

// `ebb` as a program: what its commands print, and with which exit code they end.
#include "tests/tools/support/programs.hpp"

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;
using nlohmann::json;

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
  check_usage_error(daemon.asked({"vram", "abc"}), "\"abc\" is no number of MiB; give a whole number from 0 to 4294967295, or - for the reserve of the start");
  check_usage_error(daemon.asked({"vram", "1.5"}), "\"1.5\" is no number of MiB");
  check_usage_error(daemon.asked({"vram", "-1"}), "-1");
  check_usage_error(daemon.asked({"vram", "4294967296"}), "\"4294967296\" is no number of MiB; give a whole number from 0 to 4294967295");
  check_usage_error(daemon.asked({"vram", ""}), "\"\" is no number of MiB");  // as an unset variable of a shell leaves it
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
  CHECK(now["prompt_tokens"] == 0);

  REQUIRE(daemon.asked({"generate", "-p", "In the beginning", "-n", "4", "--ignore-eos"}).code == exit_ok);
  CHECK_THAT(shown.out, !Catch::Contains("gaps between tokens"));
  const outcome used = daemon.asked({"status"});
  CHECK_THAT(used.out, Catch::Contains("4 tokens in 4 windows, 4 prompt tokens read") && Catch::Contains("\ngaps between tokens ") &&
                           Catch::Contains(" ms on average, ") && Catch::Contains("\n  misses: 0 on the CPU, 0 copied; 1 flips\n"));
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

TEST_CASE("ebb lease alone says what it needs, and each bound of its options is told in plain numbers") {
  check_usage_error(ebb_runs({"lease"}), "`ebb lease 8000 --device 1 -- COMMAND`");
  check_usage_error(ebb_runs({"lease", "5", "--ttl", "0"}), "\"0\" is no whole number of seconds from 1 to 604800");
  check_usage_error(ebb_runs({"lease", "5", "--ttl", "604801"}), "from 1 to 604800");
  check_usage_error(ebb_runs({"lease", "5", "--wait", "3601"}), "\"3601\" is no whole number of seconds from 0 to 3600");
  check_usage_error(ebb_runs({"lease", "5", "--min", "0"}), "\"0\" is no whole number of MiB from 1 to 4294967295");
  check_usage_error(ebb_runs({"lease", "5", "--min", "1.5"}), "\"1.5\" is no whole number of MiB");
  check_usage_error(ebb_runs({"lease", "5", "--device", "-1"}), "\"-1\" is no whole number from 0 to 4294967295");
}

TEST_CASE("ebb lease refuses a -- with nothing behind it, and options that mean nothing to what is asked") {
  check_usage_error(ebb_runs({"lease", "3", "--"}), "behind -- comes no command");
  check_usage_error(ebb_runs({"lease", "list", "--ttl", "3"}), "--ttl has no meaning for `ebb lease list`");
  check_usage_error(ebb_runs({"lease", "release", "7", "--wait", "3"}), "--wait has no meaning for `ebb lease release`");
  check_usage_error(ebb_runs({"lease", "renew", "7", "--device", "0"}), "--device has no meaning for `ebb lease renew`");
  check_usage_error(ebb_runs({"lease", "list", "--", "true"}), "-- has no meaning for `ebb lease list`");
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

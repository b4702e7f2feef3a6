// tools/ebb/main.cpp: the command line of `ebb`.
#include "config/limits.hpp"
#include "config/nearest.hpp"
#include "config/utf8.hpp"
#include "tools/ebb/commands.hpp"
#include "tools/exit_code.hpp"
#include "tools/version.hpp"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iostream>
#include <string_view>

namespace {

using namespace ebb::tools;

constexpr const char* exit_codes =
    "Exit codes: 0 success, 1 the command failed (verify: a hash differs; vram: short of what was asked; replay: a reply differs), 2 bad arguments, settings or files, 3 no daemon answers.";

// CLI11 lets -1 wrap around in an unsigned number.
const CLI::Validator whole(
    [](std::string& text) {
      const bool digits = !text.empty() && text.size() <= 19 && text.find_first_not_of("0123456789") == std::string::npos;
      return digits ? std::string() : "\"" + text + "\" is no whole number of at most 19 digits";
    },
    "WHOLE");

// For what the bus bounds too: refused here it names the option. CLI11's own texts have bounds such as 17976931348623157...
CLI::Validator whole_from(std::uint32_t least, std::uint32_t most, const std::string& of_what) {
  return CLI::Validator(
      [=](std::string& text) {
        std::uint32_t number = 0;
        const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (failure == std::errc{} && end == text.data() + text.size() && number >= least && number <= most) return std::string();
        return ebb::in_quotes(text) + " is no whole number" + of_what + " from " + std::to_string(least) + " to " + std::to_string(most);
      },
      "WHOLE");
}

std::string examples(const std::string& lines) { return "Examples:\n" + lines + exit_codes; }

void add_engine(CLI::App& command, engine_choice& engine) {
  command.add_option("model", engine.model, "GGUF file (the first one of a sharded model)")->required();
  command.add_option("--cards", engine.cards, "host cards to split the layers over (default: the setting `cards`, else 1)")->check(CLI::Range(1u, 64u));
  command.add_option("--threads", engine.threads, "threads that compute (default: every core)")->check(CLI::Range(1u, 1024u));
  command.add_option("--config", engine.config, "TOML file of settings")->check(CLI::ExistingFile);
  command.add_option("--set", engine.overrides, "key=value, as in the settings file; may be repeated")->allow_extra_args(false);
}

void add_daemon(CLI::App& command, daemon_choice& daemon) {
  command.add_option("--connect", daemon.endpoint, "endpoint of the daemon (default: ipc://$XDG_RUNTIME_DIR/ebb/commands)");
  command.add_option("--keys", daemon.keys, "file of keys, for a tcp:// endpoint that wants them (see `ebb keys`)")->check(CLI::ExistingFile);
}

// `keys server` and `keys client`.
void add_keys(CLI::App& command, std::string& server_file, client_keys_options& client, int& code) {
  command.require_subcommand(1);
  auto* server_command = command.add_subcommand("server", "make a daemon's file of keys");
  server_command->add_option("file", server_file, "file to make, for the setting bus.curve_keys")->required();
  server_command->callback([&] { code = keys_server(server_file); });
  auto* client_command = command.add_subcommand("client", "make a client's file of keys");
  client_command->add_option("file", client.file, "file to make, for --keys")->required();
  client_command->add_option("--server", client.server_file, "the file of the daemon that the client will talk to")->required()->check(CLI::ExistingFile);
  client_command->add_flag("--add", client.add, "add the client's public key to the daemon's file");
  client_command->callback([&] { code = keys_client(client); });
  command.footer(examples("  ebb keys server server.toml; ebb keys client laptop.toml --server server.toml --add\n"
                          "  ebbd MODEL.gguf --set bus.listen=auto,tcp://0.0.0.0:5560 --set bus.curve_keys=server.toml\n"
                          "  ebb status --connect tcp://HOST:5560 --keys laptop.toml\n"));
}

// `config show` and `config set`.
void add_config(CLI::App& command, std::string& shown_file, config_set_options& set, int& code) {
  command.require_subcommand(1);
  auto* show_command = command.add_subcommand("show", "print every setting of a file, with what it means and what is allowed");
  show_command->add_option("--config", shown_file, "TOML file of settings (default: none, which shows the defaults)")->check(CLI::ExistingFile);
  show_command->callback([&] { code = config_show(shown_file); });
  auto* set_command = command.add_subcommand("set", "change one value in a file of settings, for the next start; the keys marked (n)");
  set_command->add_option("key", set.key, "such as vram_reserve_mib")->required();
  set_command->add_option("value", set.value, "as in --set key=value")->required();
  set_command->add_option("--config", set.file, "TOML file of settings; one that is not there is begun")->required();
  set_command->callback([&] { code = config_set(set); });
  command.footer(examples("  ebb config show --config ebb.toml\n  ebb config set vram_reserve_mib 900 --config ebb.toml\n"));
}

void add_json(CLI::App& command, bool& json) { command.add_flag("--json", json, "print JSON: one object, or one a line while streaming"); }

// `synth`. The numbers are checked where the model is made, which knows what they depend on.
void add_synth(CLI::App& command, synth_options& options) {
  std::string shapes;
  for (const std::string_view name : synthetic_shapes()) shapes += (shapes.empty() ? "" : ", ") + std::string(name);
  auto& model = options.model;
  command.add_option("out", options.out, "GGUF file to write")->required();
  command.add_option("--shape", model.shape, "the model whose shape it has: " + shapes)->capture_default_str();
  command.add_option("--formats", model.formats, "q4_k_m, or the format of every expert: q8_0, q4_0, q5_k, ...")->capture_default_str();
  command.add_option("--layers", model.n_layers, "in place of the shape's, to fit into less memory")->check(whole_from(0, UINT32_MAX, " of layers"));
  command.add_option("--experts", model.n_experts, "in a layer, in place of the shape's")->check(whole_from(0, UINT32_MAX, " of experts"));
  command.add_option("--experts-used", model.top_k, "by a token, in place of the shape's")->check(whole_from(0, UINT32_MAX, " of experts"));
  command.add_option("--vocab", model.n_vocab, "tokens, in place of the shape's")->check(whole_from(0, UINT32_MAX, " of tokens"));
  command.add_option("--seed", model.seed, "the same seed, the same bytes")->check(whole)->capture_default_str();
  command.add_option("--skew", model.skew, "share of a layer's picks that its hottest quarter of experts gets; 0.25: all alike")->capture_default_str();
  command.add_option("--threads", options.threads, "threads that write (default: every core)")->check(CLI::Range(1u, 1024u));
  command.add_flag("--force", options.force, "overwrite a file that is there");
  add_json(command, options.json);
  command.footer(examples("  ebb synth synthetic.gguf                   17 GiB, the shape of Qwen3-30B-A3B\n"
                          "  ebb synth cut.gguf --layers 4 && ebb bench cut.gguf\n"
                          "  ebb synth tiny.gguf --shape tiny --formats q8_0 --seed 7\n"));
}

// The arguments of `vram`, and of `plan`. The device is an option of CLI11 until the command runs, since it may be left out.
CLI::Option* add_reserve(CLI::App& command, vram_options& options, std::uint32_t& device) {
  command.add_option("mib", options.reserve, "MiB that must be free; - or nothing: the reserve of the start");
  auto* device_option = command.add_option("device", device, "the card, 0 first; nothing: every card");
  add_json(command, options.json);
  return device_option;
}

void add_generate(CLI::App& command, generate_options& options) {
  auto& asked = options.asked;
  command.add_option("-p,--prompt", asked.prompt, "text to go on from")->required();
  command.add_option("-n,--max-tokens", asked.max_tokens, "the most tokens to generate (default: the setting sampling.max_tokens)")->check(CLI::Range(1u, 1u << 30));
  command.add_option("--temperature", asked.temperature, "0: always the likeliest token");
  command.add_option("--top-k", asked.top_k, "the k likeliest tokens; 0: no limit");
  command.add_option("--top-p", asked.top_p, "the likeliest tokens that sum to p; 1: no limit");
  command.add_option("--min-p", asked.min_p, "tokens at least p times as likely as the likeliest; 0: no limit");
  command.add_option("--repeat-penalty", asked.repeat_penalty, "1: none");
  command.add_option("--repeat-last-n", asked.repeat_last_n, "tokens that the penalty looks back");
  command.add_option("--seed", asked.seed, "the same seed, the same answer")->check(whole);
  command.add_option("--stop", asked.stop, "end before this text; may be repeated")->allow_extra_args(false);
  command.add_flag("--ignore-eos", asked.ignore_eos, "go on behind the end of the text");
  command.add_flag("--hash", asked.hash, "print the hash of every logit (XXH3-128)");
  add_json(command, options.json);
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

bool knows(const CLI::App& app, const std::string& command) {
  const auto names = names_of(app);
  return std::find(names.begin(), names.end(), command) != names.end();
}

// CLI11 itself would only say that a subcommand is missing.
int refuse_command(const CLI::App& app, const std::string& command) {
  const auto names = names_of(app);
  const std::vector<std::string_view> known(names.begin(), names.end());
  std::cerr << "ebb: no command \"" << command << "\"" << ebb::did_you_mean(command, known) << "; `ebb --help` lists them\n";
  return exit_usage;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"ebb: Mixture-of-Experts models from GGUF files, with memory that can be lent at any time."};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("ebb ") + version);
  app.footer(exit_codes);
  int code = exit_ok;

  engine_choice run_engine;
  generate_options run_options;
  auto* run_command = app.add_subcommand("run", "answer a prompt in this process, without a daemon");
  add_engine(*run_command, run_engine);
  add_generate(*run_command, run_options);
  run_command->footer(examples("  ebb run model/demo/chapbook-q4_k_m.gguf -p 'In the beginning' -n 60\n"
                               "  ebb run MODEL.gguf -p 'Call me' --cards 2 --temperature 0.8 --seed 7\n"));
  run_command->callback([&] { code = run(run_engine, run_options); });

  daemon_choice daemon;
  generate_options generate_given;
  auto* generate_command = app.add_subcommand("generate", "answer a prompt by the daemon");
  add_daemon(*generate_command, daemon);
  add_generate(*generate_command, generate_given);
  generate_command->footer(examples("  ebb generate -p 'Call me Ishmael.' -n 100\n  ebb generate -p 'My fellow citizens' --json\n"));
  generate_command->callback([&] { code = generate(daemon, generate_given); });

  vram_options vram_given;
  std::uint32_t device = 0;
  auto* vram_command = app.add_subcommand("vram", "set how many MiB must be free on a card, or on every card");
  add_daemon(*vram_command, daemon);
  auto* device_option = add_reserve(*vram_command, vram_given, device);
  vram_command->footer(examples("  ebb vram 8000      leave 8000 MiB free on every card\n  ebb vram 8000 1    on card 1 only\n"
                                "  ebb vram - 1       back to the start's reserve on card 1\n  ebb vram           back on every card\n"));
  vram_command->callback([&] {
    if (*device_option) vram_given.device = device;
    code = vram(daemon, vram_given);
  });

  std::string config_shown;
  config_set_options config_given;
  add_config(*app.add_subcommand("config", "show the settings, and change some for the next start"), config_shown, config_given, code);

  lease_options lease_given;
  auto* lease_command = app.add_subcommand("lease", "lend VRAM to a program while it runs; list, renew and release leases");
  add_daemon(*lease_command, daemon);
  lease_command->add_option("what", lease_given.words, "MIB, or list, renew ID, release ID; behind -- a program that is run with the memory")->expected(1, 2);
  lease_command->add_option("--device", lease_given.device, "the card, 0 first (default: 0)")->check(whole_from(0, UINT32_MAX, ""));
  lease_command->add_option("--min", lease_given.min_mib, "rather so many MiB than nothing (default: all or nothing)")->check(whole_from(1, UINT32_MAX, " of MiB"));
  lease_command->add_option("--ttl", lease_given.ttl_s, "it ends after so many seconds (default: 300); with a COMMAND it is renewed while that runs")->check(whole_from(1, ebb::limits::lease_ttl_s_max, " of seconds"));
  lease_command->add_option("--wait", lease_given.wait_s, "wait so many seconds for room")->check(whole_from(0, ebb::limits::lease_wait_s_max, " of seconds"));
  lease_command->add_option("--owner", lease_given.owner, "who, for people (default: the command)");
  add_json(*lease_command, lease_given.json);
  lease_command->footer("Examples:\n  ebb lease 8000 --device 1 --ttl 300 -- blender -b scene.blend -f 1\n  ebb lease 8000 --wait 60\n  ebb lease list\n"
                        "  ebb lease release 7\nWith a COMMAND the exit code is the command's (128 + N if signal N ended it); 127: it cannot be run.\n" +
                        std::string(exit_codes));
  lease_command->callback([&] { code = lease(daemon, lease_given); });

  events_options events_given;
  auto* events_command = app.add_subcommand("events", "show what happens, as it happens, a line each");
  add_daemon(*events_command, daemon);
  events_command->add_option("-n,--count", events_given.count, "end after so many (default: go on)")->check(whole);
  add_json(*events_command, events_given.json);
  events_command->footer(examples("  ebb events\n  ebb events --json -n 1\n"));
  events_command->callback([&] { code = events(daemon, events_given); });

  vram_options plan_given;
  auto* plan_command = app.add_subcommand("plan", "what a reserve would cost, by what was asked for lately; changes nothing");
  add_daemon(*plan_command, daemon);
  auto* plan_device_option = add_reserve(*plan_command, plan_given, device);
  plan_command->footer(examples("  ebb plan 8000      if 8000 MiB were free on every card\n  ebb plan 8000 1    on card 1 only\n"
                                "  ebb plan - --json  if every card had its reserve of the start\n"));
  plan_command->callback([&, plan_device_option] {
    if (*plan_device_option) plan_given.device = device;
    code = plan(daemon, plan_given);
  });

  bool status_json = false;
  auto* status_command = app.add_subcommand("status", "what the daemon is doing, and what each card holds");
  add_daemon(*status_command, daemon);
  add_json(*status_command, status_json);
  status_command->footer(examples("  ebb status\n  ebb status --json\n"));
  status_command->callback([&] { code = status(daemon, status_json); });

  top_options top_given;
  std::uint32_t interval_ms = 1000;
  auto* top_command = app.add_subcommand("top", "the cards, rates, leases and experts of a daemon, live; q quits");
  add_daemon(*top_command, daemon);
  top_command->add_option("--interval", interval_ms, "milliseconds between two pictures")->check(whole_from(100, 60'000, " of milliseconds"))->capture_default_str();
  top_command->add_flag("--once", top_given.once, "print one picture and end, as where the output is no terminal");
  top_command->add_option("--columns", top_given.columns, "width of that one picture")->check(whole_from(20, 1000, " of columns"))->capture_default_str();
  top_command->footer(examples("  ebb top\n  ebb top --once\n"));
  top_command->callback([&] {
    top_given.interval = std::chrono::milliseconds(interval_ms);
    code = top(daemon, top_given);
  });

  inspect_options inspect_given;
  auto* inspect_command = app.add_subcommand("inspect", "what a model file holds, and what of it fits in memory");
  inspect_command->add_option("model", inspect_given.model, "GGUF file (the first one of a sharded model)")->required();
  inspect_command->add_option("--mib", inspect_given.mib, "say how many experts fit in so many MiB; may be repeated")->check(whole)->allow_extra_args(false);
  inspect_command->add_flag("--keys", inspect_given.keys, "print every key of the file");
  add_json(*inspect_command, inspect_given.json);
  inspect_command->footer(examples("  ebb inspect model/demo/chapbook-q4_k_m.gguf --mib 8\n"));
  inspect_command->callback([&] { code = inspect(inspect_given); });

  logits_options logits_given;
  auto* logits_command = app.add_subcommand("logits", "write the logits of given token ids, for comparison with other programs");
  add_engine(*logits_command, logits_given.engine);
  logits_command->add_option("--ids", logits_given.ids, "JSON file: a list of token ids")->required()->check(CLI::ExistingFile);
  logits_command->add_option("--out", logits_given.out, "file to write: little-endian float32 [n, vocab]")->required();
  add_json(*logits_command, logits_given.json);
  logits_command->footer(examples("  echo '[40, 77, 259]' > ids.json; ebb logits MODEL.gguf --ids ids.json --out logits.f32\n"));
  logits_command->callback([&] { code = logits(logits_given); });

  verify_options verify_given;
  auto* verify_command = app.add_subcommand("verify", "prove on this machine that lending memory changes no bit of an answer");
  add_engine(*verify_command, verify_given.engine);
  verify_command->add_option("--resizes", verify_given.resizes, "random vram commands while it answers")->capture_default_str();
  verify_command->add_option("--seed", verify_given.seed, "of the random commands")->check(whole)->capture_default_str();
  verify_command->add_option("-n,--tokens", verify_given.tokens, "length of the conversation")->check(CLI::Range(1u, 1u << 20))->capture_default_str();
  verify_command->add_option("-p,--prompt", verify_given.prompt, "what it begins with");
  add_json(*verify_command, verify_given.json);
  verify_command->footer(examples("  ebb verify model/demo/chapbook-q4_k_m.gguf --set vram_segment_mib=1 --cards 2 --resizes 500\n"));
  verify_command->callback([&] { code = verify(verify_given); });

  bench_options bench_given;
  auto* bench_command = app.add_subcommand("bench", "tokens/s of this model on this machine, and the share of its memory bandwidth");
  add_engine(*bench_command, bench_given.engine);
  bench_command->add_option("-n,--tokens", bench_given.tokens, "tokens to decode")->check(CLI::Range(2u, 1u << 20))->capture_default_str();
  bench_command->add_option("--prompt-tokens", bench_given.prompt_tokens, "tokens of prompt")->check(CLI::Range(1u, 1u << 20))->capture_default_str();
  bench_command->add_option("--repeats", bench_given.repeats, "runs; the median counts")->check(CLI::Range(1u, 1000u))->capture_default_str();
  add_json(*bench_command, bench_given.json);
  bench_command->footer(examples("  ebb bench model/demo/chapbook-q4_k_m.gguf --threads 2\n"));
  bench_command->callback([&] { code = bench(bench_given); });

  replay_options replay_given;
  auto* replay_command = app.add_subcommand("replay", "feed a journal's messages to an engine again, and compare the replies with the recorded ones");
  replay_command->add_option("journal", replay_given.journal, "file that a daemon wrote, see the setting `journal`")->required();
  auto* replay_connect = replay_command->add_option("--connect", replay_given.endpoint, "endpoint of a daemon to feed (default: an engine in this process, in virtual time)");
  replay_command->add_option("--keys", replay_given.keys, "file of keys, for a tcp:// endpoint that wants them")->check(CLI::ExistingFile)->needs(replay_connect);
  replay_command->add_option("--model", replay_given.model, "GGUF file (default: the one that the journal names)")->excludes(replay_connect);
  add_json(*replay_command, replay_given.json);
  replay_command->footer(examples("  ebb replay ebb.journal --model model/demo/chapbook-q4_k_m.gguf\n  ebb replay ebb.journal --connect ipc:///run/ebb/commands\n"));
  replay_command->callback([&] { code = replay(replay_given); });

  synth_options synth_given;
  auto* synth_command = app.add_subcommand("synth", "write a model of random weights at the shape of a real one, to measure without its weights");
  add_synth(*synth_command, synth_given);
  synth_command->callback([&] { code = synth(synth_given); });

  std::string keys_server_file;
  client_keys_options keys_client_given;
  add_keys(*app.add_subcommand("keys", "make the keys by which a daemon and clients on other machines know each other"), keys_server_file,
           keys_client_given, code);

  if (argc > 1 && argv[1][0] != '-' && !knows(app, argv[1])) return refuse_command(app, argv[1]);
  // What follows -- is another program's, options and all; CLI11 would take them for ours.
  char** const behind = argc > 1 && argv[1] == std::string_view("lease") ? std::find(argv, argv + argc, std::string_view("--")) : argv + argc;
  lease_given.runs_program = behind != argv + argc;
  if (lease_given.runs_program) lease_given.program.assign(behind + 1, argv + argc);
  try {
    app.parse(static_cast<int>(behind - argv), argv);
  } catch (const CLI::ParseError& stop) {
    return app.exit(stop) == 0 ? exit_ok : exit_usage;
  } catch (const std::exception& unforeseen) {
    return report_error({ebb::errc::internal, unforeseen.what()});
  }
  return code;
}

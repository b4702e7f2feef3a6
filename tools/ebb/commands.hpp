// tools/ebb/commands.hpp: the subcommands of `ebb`, each a function from its options to an exit code. main.cpp reads the arguments.
#pragma once
#include "bus/messages.hpp"
#include "config/settings.hpp"
#include "tools/synthetic_model.hpp"
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ebb::tools {

// For the commands that start an engine in this process.
struct engine_choice {
  std::string model;
  std::string config;                    // TOML file; empty: none
  std::uint32_t cards = 0;               // host cards; 0: as the settings say
  std::uint32_t threads = 0;             // 0: as the settings say
  std::vector<std::string> overrides;    // key=value
};

// For the commands that ask a daemon.
struct daemon_choice {
  std::string endpoint;  // empty: the default one
  std::string keys;      // file of the client's CURVE keys; empty: none
};

struct client_keys_options {
  std::string file;         // to be made
  std::string server_file;  // of the daemon that the client will talk to
  bool add = false;         // to the daemon's file
};

struct config_set_options {
  std::string file;
  std::string key;
  std::string value;  // as on the command line of ebbd
};

struct generate_options {
  bus::generate asked;
  bool json = false;
};

// Of `vram`, and of `plan`, which says what that would come to.
struct vram_options {
  std::string reserve = "-";  // the start's reserve
  std::optional<std::uint32_t> device;
  bool json = false;
};

struct lease_options {
  std::vector<std::string> words;       // MIB, or list, renew ID, release ID
  std::vector<std::string> program;     // to be run with the memory, and its arguments
  bool runs_program = false;            // -- was given, with or without something behind it
  std::optional<std::uint32_t> device;  // none: 0
  std::optional<std::uint32_t> min_mib;
  std::optional<std::uint32_t> ttl_s;
  std::optional<std::uint32_t> wait_s;
  std::string owner;  // empty: the command's name
  bool json = false;
};

struct top_options {
  std::chrono::milliseconds interval{1000};
  bool once = false;          // one picture, as lines, as also where the output is no terminal
  std::size_t columns = 100;  // of that picture
};

struct events_options {
  std::uint64_t count = 0;  // end after so many; 0: go on
  bool json = false;
};

struct inspect_options {
  std::string model;
  std::vector<std::uint64_t> mib;  // "what fits in N MiB"
  bool keys = false;
  bool json = false;
};

struct logits_options {
  engine_choice engine;
  std::string ids;  // a JSON file: [1, 2, 3]
  std::string out;
  bool json = false;
};

struct verify_options {
  engine_choice engine;
  std::uint32_t resizes = 200;
  std::uint64_t seed = 1;
  std::uint32_t tokens = 200;
  std::string prompt;
  bool json = false;
};

struct bench_options {
  engine_choice engine;
  std::uint32_t tokens = 200;
  std::uint32_t prompt_tokens = 512;
  std::uint32_t repeats = 5;
  bool json = false;
};

struct replay_options {
  std::string journal;
  std::string endpoint;  // of a daemon; empty: an engine in this process
  std::string keys;      // file of the client's CURVE keys; empty: none
  std::string model;     // empty: as the journal's settings say
  bool json = false;
};

struct synth_options {
  std::string out;
  synthetic_options model;
  std::uint32_t threads = 0;  // 0: one a core
  bool force = false;         // overwrite a file that is there
  bool json = false;
};

int run(const engine_choice& engine, const generate_options& options);
int generate(const daemon_choice& daemon, const generate_options& options);
int vram(const daemon_choice& daemon, const vram_options& options);
int lease(const daemon_choice& daemon, const lease_options& options);
int events(const daemon_choice& daemon, const events_options& options);
int plan(const daemon_choice& daemon, const vram_options& options);
int status(const daemon_choice& daemon, bool json);
// Until q or a signal: the cards of a daemon, its rates and leases, each second.
int top(const daemon_choice& daemon, const top_options& options);
int inspect(const inspect_options& options);
int logits(const logits_options& options);
int verify(const verify_options& options);
int bench(const bench_options& options);
int replay(const replay_options& options);
int synth(const synth_options& options);
int config_show(const std::string& file);
int config_set(const config_set_options& options);
int keys_server(const std::string& file);
int keys_client(const client_keys_options& options);

// The settings that a choice of engine means: the file, the environment, the overrides, then its own words.
result<settings> settings_of(const engine_choice& engine);

// Prints "ebb: text [code]" on stderr and gives the exit code that fits: usage for bad settings and files, no_daemon, or failed.
int report_error(const error& why);

}  // namespace ebb::tools

// config/settings.hpp: everything that a user can set, and the four places it comes from.
//
// Later places win: the defaults below, a TOML file, the environment (EBB_BUS_LISTEN sets bus.listen), "key=value" of the
// command line. What a key means, allows and is called stands once, in config/setting_keys.cpp; config/ebb.toml shows it.
#pragma once
#include "config/result.hpp"
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ebb {

enum class card_kind : std::uint8_t { host, cuda };

// What "auto" stands for. A GPU maps large pieces much faster, and its desktop and CUDA contexts need room of their own.
struct card_defaults {
  std::uint32_t segment_mib;
  std::uint32_t reserve_mib;
};
constexpr card_defaults defaults_of(card_kind kind) noexcept {
  return kind == card_kind::cuda ? card_defaults{64, 700} : card_defaults{1, 0};
}

// One entry of `cards`: "host", or "cuda:1".
struct card_choice {
  card_kind kind = card_kind::host;
  std::uint32_t gpu = 0;  // the driver's number of the GPU; 0 for a host card
  friend bool operator==(const card_choice&, const card_choice&) = default;
};

// Endpoints are ZeroMQ's ("ipc:///run/ebb", "tcp://127.0.0.1:5560"), or "auto": the ipc one in $XDG_RUNTIME_DIR/ebb.
struct bus_settings {
  std::vector<std::string> listen = {"auto"};  // where commands come in
  std::vector<std::string> events = {"auto"};  // where events go out
  std::string curve_keys;                      // a file of CURVE keys; empty: none, and only loopback addresses are allowed
  friend bool operator==(const bus_settings&, const bus_settings&) = default;
};

struct http_settings {
  std::string listen;        // "address:port"; empty: no HTTP
  std::string api_key_file;  // empty: no key is asked for
  std::vector<std::string> trusted_origins;
  friend bool operator==(const http_settings&, const http_settings&) = default;
};

// What a request that says nothing about sampling gets.
struct sampling_settings {
  float temperature = 0.0F;          // 0: always the likeliest token
  std::uint32_t top_k = 0;           // 0: off
  float top_p = 1.0F;                // 1: off
  float min_p = 0.0F;                // 0: off
  float repeat_penalty = 1.0F;       // 1: off
  std::uint32_t repeat_last_n = 64;  // tokens that the penalty looks back
  std::uint64_t seed = 0;
  std::uint32_t max_tokens = 256;
  friend bool operator==(const sampling_settings&, const sampling_settings&) = default;
};

struct settings {
  std::string model;                            // path of a GGUF file; empty: none was named
  std::vector<card_choice> cards;               // empty: "auto"
  std::vector<std::uint32_t> layers;            // first layer of each stage; empty: "auto"
  std::uint32_t parallel = 4;                   // sessions that are answered at the same time
  std::uint32_t context = 0;                    // tokens a session; 0: the model's own
  std::uint32_t threads = 0;                    // of the miss pool; 0: every core
  bool vram_elastic = true;                     // false: caches keep the size they start with
  std::uint64_t vram_segment_bytes = 0;         // 0: "auto", see segment_bytes()
  std::vector<std::uint32_t> vram_reserve_mib;  // empty: "auto", see reserve_mib(); one: for every card; else one a card
  std::uint32_t host_card_mib = 0;              // size of each host card; 0: as much as its cache needs
  std::uint32_t min_free_vram_mib = 0;          // what a start waits for on GPUs, growth leaves and auto_yield keeps free; 0: no wait, the reserve, 256 at least
  bool auto_yield = false;                      // give VRAM back unasked when another program needs it
  std::string profile;                          // file of expert heat; empty: in state_dir, "off": none
  std::string state_dir;                        // where reserves and leases are kept; empty: the default place
  std::string journal;                          // file of every message; empty: off
  bus_settings bus;
  http_settings http;
  sampling_settings sampling;
  friend bool operator==(const settings&, const settings&) = default;
};

// The values in force for a card of that kind, with "auto" resolved. Pre of reserve_mib: `card` is below the number of cards.
std::uint64_t segment_bytes(const settings& from, card_kind kind) noexcept;
std::uint32_t reserve_mib(const settings& from, card_kind kind, std::size_t card) noexcept;

using environment = std::map<std::string, std::string>;

struct settings_sources {
  std::filesystem::path file;          // empty: no file
  environment variables;               // only names that begin with EBB_ are looked at
  std::vector<std::string> overrides;  // "key=value", a key of a table as "bus.listen"
};

// The process's own variables that begin with EBB_.
environment ebb_environment();

// Reads every place in order, then checks that `cards`, `layers` and `vram_reserve_mib` fit one another.
// Errors: file_unreadable; malformed (no TOML); unknown_key; bad_value. The text names the place (file:line, variable or
// argument), the key, the value and what is allowed.
result<settings> load_settings(const settings_sources& from);

// One place each, over what is in `into`, which is unchanged after an error. `file` is only for the error texts.
result<void> apply_toml(settings& into, std::string_view text, std::string_view file);
result<void> apply_environment(settings& into, const environment& variables);
result<void> apply_overrides(settings& into, const std::vector<std::string>& overrides);

// A TOML file with every key, its value in `from`, and a comment that says why it exists; apply_toml() reads it back.
std::string to_toml(const settings& from);

}  // namespace ebb

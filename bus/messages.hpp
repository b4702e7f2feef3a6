// bus/messages.hpp: what clients and the daemon say to each other, as plain values. The bytes are bus/codec.hpp's business.
//
//   command    replies, in order                          last
//   generate   token, token, ... (none if !stream), done   done
//   cancel     cancelled                                  cancelled; the generate ends with its own done, finish "cancelled"
//   vram       vram_report                                vram_report
//   status     status_report                              status_report
//   cards      cards_report                               cards_report
//   lease      lease_report                               lease_report
//   plan       plan_report                                plan_report
//   subscribe  subscribed                                 subscribed; the events themselves come from bus/events.hpp's socket
//   tokenize   tokenized                                  tokenized
//   detokenize detokenized                                detokenized
//   experts    experts_report                             experts_report
//   any        error                                      error
#pragma once
#include "bus/request_id.hpp"
#include "config/ids.hpp"
#include "config/limits.hpp"
#include "config/result.hpp"
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ebb::bus {

// --- commands

// What one party of a conversation said.
struct chat_message {
  std::string role;     // "system", "user", "assistant", or what else the model's template knows
  std::string content;  // may be empty
  std::string name;     // empty: none
  friend bool operator==(const chat_message&, const chat_message&) = default;
};

struct generate {
  // Exactly one of the three is given; the others are empty.
  std::string prompt;
  std::vector<token_id> ids;           // each >= 0
  std::vector<chat_message> messages;  // a conversation, written out by the model's chat template for the assistant to go on

  // Absent: the daemon's [sampling] default.
  std::optional<std::uint32_t> max_tokens;      // >= 1
  std::optional<float> temperature;            // >= 0; 0 always takes the likeliest token
  std::optional<std::uint32_t> top_k;          // 0: no limit
  std::optional<float> top_p;                  // in [0, 1]; 0: the likeliest only, 1: no limit
  std::optional<float> min_p;                  // in [0, 1]; 0: no limit
  std::optional<float> repeat_penalty;         // > 0; 1: none
  std::optional<std::uint32_t> repeat_last_n;  // tokens looked back at; 0: none
  std::optional<std::uint64_t> seed;

  std::vector<std::string> stop;  // at most limits::stop_strings_max, each of 1 to limits::stop_bytes_max bytes
  bool hash = false;              // done carries a hash of every logit
  bool stream = true;             // false: no token replies, the whole text in done
  bool ignore_eos = false;
  std::optional<std::uint32_t> logprobs;  // each token comes with its log probability and so many of the likeliest; needs stream
  friend bool operator==(const generate&, const generate&) = default;
};

struct cancel {
  request_id target;  // the id of a generate of the same client
  friend bool operator==(const cancel&, const cancel&) = default;
};

struct vram {
  std::optional<std::uint32_t> reserve_mib;  // absent: the reserve of the start
  std::optional<std::uint32_t> device;       // absent: every card
  friend bool operator==(const vram&, const vram&) = default;
};

struct status {
  friend bool operator==(const status&, const status&) = default;
};

struct cards {
  friend bool operator==(const cards&, const cards&) = default;
};

// VRAM promised to another program. What each action takes is listed in docs/BUS.md and checked by the codec.
struct lease {
  std::string action;                    // "acquire", "renew", "release" or "list"
  std::string owner;                     // acquire: who; for people
  std::optional<std::uint32_t> device;   // acquire
  std::optional<std::uint32_t> mib;      // acquire, > 0
  std::optional<std::uint32_t> min_mib;  // acquire: rather so much than nothing; absent: all or nothing
  std::optional<std::uint32_t> ttl_s;    // acquire, renew: it ends so long from now
  std::optional<std::uint32_t> wait_s;   // acquire: how long to wait for room; absent: not at all
  std::optional<std::uint32_t> pid;      // acquire: it ends with this process
  std::optional<std::uint64_t> lease_id; // renew, release
  friend bool operator==(const lease&, const lease&) = default;
};

// What would a reserve cost?
struct plan {
  std::optional<std::uint32_t> reserve_mib;  // absent: the reserve of the start
  std::optional<std::uint32_t> device;       // absent: every card
  friend bool operator==(const plan&, const plan&) = default;
};

struct subscribe {
  friend bool operator==(const subscribe&, const subscribe&) = default;
};

// The tokens of a text, without the one that begins a prompt.
struct tokenize {
  std::string text;      // at most limits::tokenize_bytes_max bytes
  bool special = false;  // special tokens written in the text are taken as such; false: their letters are plain text
  friend bool operator==(const tokenize&, const tokenize&) = default;
};

// The text of tokens, special ones as the vocabulary writes them.
struct detokenize {
  std::vector<token_id> ids;  // each >= 0
  friend bool operator==(const detokenize&, const detokenize&) = default;
};

// Which experts are in a slot, and how hot each is.
struct experts {
  friend bool operator==(const experts&, const experts&) = default;
};

using command = std::variant<generate, cancel, vram, status, cards, lease, plan, subscribe, tokenize, detokenize, experts>;

struct request {
  request_id id;      // empty in a text command, never in a msgpack one
  bool text = false;  // came as text, so is answered as text
  bus::command command;
  friend bool operator==(const request&, const request&) = default;
};

// --- replies

struct token_logprob {
  token_id id = 0;
  std::string text;   // the token's own bytes, special ones as the vocabulary writes them; on the wire U+FFFD for what is no UTF-8
  float logprob = 0;  // finite, <= 0
  friend bool operator==(const token_logprob&, const token_logprob&) = default;
};

struct token {
  std::uint64_t index = 0;  // of this answer's tokens, from 0
  token_id id = 0;
  std::string text;  // may be empty: a token can end in the middle of a UTF-8 character
  // If generate::logprobs asked: by the softmax of the model's logits as they are, before temperature, penalties and cuts.
  std::optional<float> logprob;
  std::vector<token_logprob> top;  // the likeliest, likeliest first, of equal ones the lower id; none without a chance
  friend bool operator==(const token&, const token&) = default;
};

struct done {
  std::string text;    // the whole answer if stream was false, else empty
  std::string finish;  // "stop" (end of text or a stop string), "length" (max_tokens or the context is used up) or "cancelled"
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
  double prompt_ms = 0;
  double decode_ms = 0;
  double tokens_per_s = 0;  // of decoding
  double hit_rate = 0;      // share of the experts that were in a cache, in [0, 1]
  double gap_ms_max = 0;    // the largest gap between two tokens
  std::string hash;         // of every logit; empty when not asked for
  friend bool operator==(const done&, const done&) = default;
};

// What one card holds after a command. MiB of memory are doubles, since a host card's segments may be smaller than one.
struct card_report {
  std::uint32_t device = 0;
  std::uint32_t reserve_mib = 0;
  std::uint32_t expert_slots = 0;
  std::uint32_t expert_slots_full = 0;  // at the start's reserve
  double expert_cache_mib = 0;
  double expert_cache_full_mib = 0;
  double vram_free_mib = 0;        // by the driver's own figure
  std::uint32_t prompt_chunk = 0;  // rows
  double short_mib = 0;            // how much of the reserve could not be freed; 0 is success
  double took_ms = 0;
  friend bool operator==(const card_report&, const card_report&) = default;
};

struct vram_report {
  std::vector<card_report> cards;  // those the command was for
  friend bool operator==(const vram_report&, const vram_report&) = default;
};

struct card_info {
  card_report report;             // short_mib and took_ms: of the last resize
  std::string kind;               // "cuda" or "host"
  std::uint32_t layer_begin = 0;  // the stage is [layer_begin, layer_end)
  std::uint32_t layer_end = 0;
  bool resident = false;
  bool fast_path = false;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;         // of which
  std::uint64_t misses_cpu = 0;     // the CPU computed, and
  std::uint64_t misses_copied = 0;  // were copied to the GPU and computed there
  std::uint64_t flips = 0;          // times the stage became resident, or stopped being so
  std::uint32_t slots_to_fill = 0;  // mapped, and waiting for the expert that is to come; 0: the refill is over
  double rss_mib = 0;  // what a host card's arena holds of the system's memory; 0 on a GPU
  double memory_mib = 0;  // of the whole device: a GPU's by the driver, a host card's as the settings give it

  // Of a GPU; absent or empty on a host card.
  std::optional<std::uint32_t> gpu;  // as the driver counts
  std::string gpu_name;
  std::string pci_address;
  std::string uuid;
  std::optional<double> held_mib;    // what the card holds of it: weights, keys and values, buffers and cache, without the context
  friend bool operator==(const card_info&, const card_info&) = default;
};

struct cards_report {
  std::vector<card_info> cards;
  friend bool operator==(const cards_report&, const cards_report&) = default;
};

struct status_report {
  std::string version;
  std::string state;  // "loading", "ready", "stopping" or "failed"
  std::string model;
  std::string architecture;
  std::uint32_t layers = 0;
  std::uint32_t experts = 0;
  std::uint32_t context = 0;
  std::uint32_t sessions = 0;
  std::uint32_t sessions_max = 0;
  std::uint32_t waiting = 0;
  double uptime_s = 0;
  std::uint64_t tokens_generated = 0;
  std::uint64_t windows = 0;
  double rss_mib = 0;
  double rss_anon_mib = 0;
  std::uint64_t prompt_tokens = 0;  // read since the start
  // Gaps between two tokens of an answer: how many lasted up to each of limits::gap_bounds_ms, and longer than all of them.
  std::vector<std::uint64_t> gap_counts = std::vector<std::uint64_t>(limits::gap_bounds_ms.size() + 1);
  double gap_ms_sum = 0;  // of all of them
  friend bool operator==(const status_report&, const status_report&) = default;
};

struct cancelled {
  friend bool operator==(const cancelled&, const cancelled&) = default;
};

struct lease_info {
  std::uint64_t lease_id = 0;
  std::string owner;
  std::uint32_t device = 0;
  std::uint32_t mib = 0;
  double ends_in_s = 0;
  std::uint32_t pid = 0;  // 0: none
  friend bool operator==(const lease_info&, const lease_info&) = default;
};

struct lease_report {
  std::vector<lease_info> leases;   // the one that was acquired, renewed or released, or all
  std::vector<card_report> cards;   // acquire: the card as it is now
  std::string warning;              // acquire: what the owner should know; may be empty
  friend bool operator==(const lease_report&, const lease_report&) = default;
};

// What a card would be at the reserve that was asked about.
struct card_plan {
  std::uint32_t device = 0;
  std::uint32_t layers = 0;  // of its stage
  std::uint32_t reserve_mib = 0;
  std::uint32_t expert_slots = 0;
  double expert_cache_mib = 0;
  double short_mib = 0;
  double hit_rate = 0;      // of this stage, by what was asked for lately; in [0, 1]
  double hit_rate_now = 0;
  double ms_per_token = 0;  // of this stage, for one session; 0: nothing has been measured yet
  double ms_per_token_now = 0;
  friend bool operator==(const card_plan&, const card_plan&) = default;
};

struct plan_report {
  std::vector<card_plan> cards;  // every card of the run; those that were not asked about stay as they are
  double hit_rate = 0;           // of all
  double hit_rate_now = 0;
  double tokens_per_s = 0;       // of one session; 0: nothing has been measured yet
  double tokens_per_s_now = 0;
  friend bool operator==(const plan_report&, const plan_report&) = default;
};

struct subscribed {
  std::vector<std::string> endpoints;  // where events come out; none: they are switched off
  std::uint64_t sequence = 0;          // of the newest event so far
  friend bool operator==(const subscribed&, const subscribed&) = default;
};

struct tokenized {
  std::vector<token_id> ids;
  std::vector<std::string> pieces;  // the bytes of each; on the wire U+FFFD for what is no UTF-8 by itself
  friend bool operator==(const tokenized&, const tokenized&) = default;
};

struct detokenized {
  std::string text;  // on the wire U+FFFD for what is no UTF-8
  friend bool operator==(const detokenized&, const detokenized&) = default;
};

// Of one card. Expert e of layer l has the number n = (l - layer_begin) * experts + e. Both texts are bytes in lower-case hex, two digits each.
struct expert_map {
  std::uint32_t device = 0;
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;
  std::uint32_t experts = 0;  // of a layer
  std::string resident;       // bit n % 8 (least significant first) of byte n / 8: whether it is in a slot; the last byte's spare bits are 0
  std::string heat;           // byte n: its use lately, 255 being the hottest of the card, 0 only what was not used
  double heat_max = 0;        // uses of the hottest, each halved every 256 windows
  friend bool operator==(const expert_map&, const expert_map&) = default;
};

struct experts_report {
  std::vector<expert_map> cards;
  friend bool operator==(const experts_report&, const experts_report&) = default;
};

struct reply {
  request_id id;  // of the request; empty for a text command
  std::variant<token, done, vram_report, cards_report, status_report, cancelled, lease_report, plan_report, subscribed, tokenized, detokenized,
               experts_report, error>
      body;

  // Whether the request is answered with this: everything but a token.
  bool last() const noexcept { return !std::holds_alternative<token>(body); }
};

}  // namespace ebb::bus

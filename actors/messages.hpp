// actors/messages.hpp: what the actors say to each other, as plain values and shared immutable buffers. No CAF here.
//
// A session is one generate request. Its place is the index of its keys and values in every card's cache; places are reused.
#pragma once
#include "actors/gap_histogram.hpp"
#include "bus/client_id.hpp"
#include "bus/messages.hpp"
#include "config/ids.hpp"
#include "model/completion.hpp"
#include "model/stage.hpp"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ebb::actors {

// What is wanted of a session; never changes after it was made.
struct session_order {
  std::vector<token_id> prompt;  // not empty, every id in the vocabulary
  model::completion_params params;
};

struct session_opening {
  session_id session;
  std::uint32_t place;
  std::shared_ptr<const session_order> order;
};

// A row of the window whose logits are wanted, and for whom.
struct sampled_row {
  std::uint32_t row;
  session_id session;
};

// One pass of a batch of rows through a stage.
struct window {
  std::uint64_t number = 0;
  std::vector<model::window_row> rows;
  std::vector<token_id> tokens;                  // [rows]
  std::vector<sampled_row> sampled;              // the last stage picks a token for each
  std::shared_ptr<const std::vector<float>> x;   // [rows, d_model], from the stage before; null for the first stage
  std::uint32_t repeat = 0;                      // further windows the card may run of its own accord, feeding its tokens back
};

// A token that the last stage picked. The fields behind `finish` are set on an answer's last token only.
struct picked_token {
  session_id session;
  token_id token = 0;
  std::string text;
  model::finish finish = model::finish::none;
  std::string logits_hash;
  std::optional<float> logprob;  // if asked for, and the likeliest beside it
  std::vector<bus::token_logprob> top;
};

struct window_result {
  std::uint64_t number = 0;
  std::shared_ptr<const std::vector<float>> x;  // for the next stage; null from the last
  std::vector<picked_token> picked;             // in the order of window::sampled; empty from all but the last stage
  std::vector<std::uint32_t> hits;              // [rows]: of each row's picks in this stage, those that were in a slot
  std::uint32_t picks_per_row = 0;              // layers of the stage * top_k
  double took_ms = 0;                           // of a window of one row, else 0
};

// What a resize is to bring about.
struct resize_goal {
  std::uint32_t reserve_mib = 0;      // must be free, now and from then on
  std::uint32_t extra_mib = 0;        // must be free beyond it, now: a lease that is about to be given
  std::uint32_t extra_min_mib = 0;    // if not even so much of it can be free, nothing is changed and the card is short_of it
  std::optional<double> ceiling_mib;  // the most that the cache may map
};

// What a resize came to. Both are of one reading of the device's free figure.
struct resize_outcome {
  bus::card_report report;
  bool could_grow = false;  // whole segments more would fit by now: somebody let go while it went on
};

// What a card may map and does, by its own books.
struct cache_size {
  std::uint32_t reserve_mib = 0;
  double mapped_mib = 0;
  double full_mib = 0;
};

// How hot each expert of a stage is, in uses of now.
struct stage_heat {
  std::uint32_t layer_begin = 0;
  std::vector<float> heat;  // [layers of the stage, experts]
};

// Sent to the residency actor whenever experts came or went. A version names one published table of one card.
struct residency_change {
  card_id card;
  std::uint64_t version = 0;
  std::uint32_t resident_count = 0;
  std::uint32_t expert_count = 0;
};

// What a session's client sees, from the scheduler to the gateway.
struct session_token {
  static constexpr std::uint64_t held_back = ~std::uint64_t{0};
  session_id session;
  std::uint64_t index = 0;  // of the answer's tokens; held_back: no token, but text that earlier ones still owed
  token_id token = 0;
  std::string text;
  std::optional<float> logprob;
  std::vector<bus::token_logprob> top;
};

struct session_end {
  session_id session;
  bus::done summary;     // when failure is none
  errc failure = errc::none;
  std::string failure_text;
};

struct scheduler_state {
  std::uint32_t sessions = 0;
  std::uint32_t sessions_max = 0;
  std::uint32_t waiting = 0;
  std::uint64_t tokens_generated = 0;
  std::uint64_t windows = 0;
  std::uint64_t prompt_tokens = 0;
  gap_histogram gaps;
  bool lost = false;  // a card has ended, and no session can run any more
  double handover_ms = 0;  // between the stages and between two tokens, of a session that decodes alone; 0: not measured yet
};

}  // namespace ebb::actors

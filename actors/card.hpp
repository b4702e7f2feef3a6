// actors/card.hpp: one device with its stage: what a card does, without saying when. The actor around it decides that.
//
// Owns the memory of the cache, the stage with its keys and values, and, on the last stage, the answers in the making. One thread
// at a time. Windows and steps of a resize alternate in any order; each leaves the tables so that the next may be the other.
#pragma once
#include "actors/card_memory.hpp"
#include "actors/clock.hpp"
#include "actors/messages.hpp"
#include "actors/resize.hpp"
#include "actors/segment_floor.hpp"
#include "actors/window_cost.hpp"
#include "config/limits.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include "kernels/gpu.hpp"
#include "model/stage.hpp"
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

namespace ebb::actors {

// Takes the addresses of a cache on a device of `card_bytes`.
using arena_factory = std::function<result<std::unique_ptr<kernels::arena>>(const kernels::segment_layout& layout, std::uint64_t card_bytes)>;

struct card_options {
  card_id card;
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;
  std::uint32_t n_sessions = 1;
  std::uint32_t context = 0;
  std::uint64_t segment_bytes = 0;      // a multiple of the page size
  std::uint64_t card_bytes = 0;         // of the whole device, or of its share of a GPU; 0: what the cache and what it leaves free need,
                                        // on a GPU whatever is free
  std::uint32_t reserve_mib = 0;        // of the start
  std::uint32_t min_free_mib = 0;       // what a growth leaves free, if that is more than the reserve
  bool elastic = true;
  std::shared_ptr<const std::vector<float>> heat_before;  // [layers of the model, experts], of an earlier run; null: none
  std::optional<resize_goal> held_goal;  // what an earlier daemon promised and this one keeps; none: the reserve of the start
  arena_factory make_arena;              // of a device that is not this machine's memory; empty: a host arena
  std::shared_ptr<kernels::gpu> gpu;     // the device of the stage and the cache; null: a host card
  std::shared_ptr<const model::expert_store> store;  // what a GPU reads its experts from; null: the mapped file
  std::uint32_t prompt_chunk_rows = limits::prompt_chunk_rows;  // the most that the scheduler gives it of one prompt; for reports

  resize_goal first_goal() const { return held_goal.value_or(resize_goal{.reserve_mib = reserve_mib, .extra_mib = 0, .extra_min_mib = 0, .ceiling_mib = {}}); }
};

class card {
 public:
  // Takes addresses and scratch memory; the cache is empty until the first resize. `pool` must outlive the card.
  // Errors: out_of_memory, bad_value (a segment that is no whole number of pages), each naming the card.
  static result<std::unique_ptr<card>> make(std::shared_ptr<const model::checkpoint> weights,
                                            std::shared_ptr<const model::tokenizer> vocabulary, const card_options& options,
                                            const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool, clock_fn now);

  // --- sessions. A place is taken again only after it was closed. Errors of open: those of model::completion::make.
  result<void> open(const session_opening& opening);
  void close(session_id session, std::uint32_t place);
  // Ends an answer from outside: the text that was held back and the hash so far. Nothing on a card that is not the last.
  std::optional<picked_token> cancel(session_id session);

  // --- windows. Errors: unknown_session (a sampled row of a session that is not open here), those of
  // model::stage::run, each naming the card.
  result<window_result> run(const window& what);
  // Exchanges a few cold residents for hotter experts, now and then. Call between windows; nothing while a resize is under way.
  void adapt();

  // --- resizing. A begin plans; steps follow until resize_step returns true; then end_resize gives the report.
  // Errors: busy (one is under way), those of the device's free figure; of begin_resize also refused (not elastic) and short_of.
  result<void> begin_fill() { return begin(options_.first_goal()); }  // the first growth, to the size of the start
  result<void> begin_resize(const resize_goal& goal);
  bool resizing() const noexcept { return resize_.has_value(); }
  bool resize_step();
  result<resize_outcome> end_resize();

  // What a goal would come to, by what was asked for lately; changes nothing. Errors: those of the device's free figure.
  result<bus::card_plan> foresee(const resize_goal& goal) const;

  // The fast path holds for one version of the table. Adopting another than the current one does nothing.
  void adopt_fast_path(std::uint64_t version) noexcept;
  bool fast_path() const noexcept { return fast_path_ == memory_.version(); }
  residency_change residency() const noexcept;

  bool last_stage() const noexcept { return options_.layer_end == weights_->dims().n_layers; }
  bool first_stage() const noexcept { return options_.layer_begin == 0; }
  const card_options& options() const noexcept { return options_; }
  const card_memory& memory() const noexcept { return memory_; }
  bus::card_info info() const { return info(memory_.arena().free_bytes().value_or(0)); }
  bus::card_info info(std::uint64_t free_bytes) const;  // with the device's free figure of just now
  cache_size size() const;   // without a question to the device
  stage_heat heat() const;
  bus::expert_map experts() const;  // which of them are in a slot, and how hot each is

 private:
  card(std::shared_ptr<const model::checkpoint> weights, std::shared_ptr<const model::tokenizer> vocabulary, const card_options& options,
       std::unique_ptr<model::stage> stage, card_memory memory, clock_fn now);

  result<void> begin(const resize_goal& goal);
  result<resize_plan> plan(const resize_goal& goal) const;
  resize_plan plan(const resize_goal& goal, std::uint64_t free_bytes) const;
  tl::unexpected<error> keeps_its_size() const;
  void begin_towards(std::uint64_t keep_bytes);
  bool settled();
  void count_picks(const window& what, window_result& answer);
  void count_flip() noexcept;
  void show_logprobs(const model::row_logprobs& of, picked_token& into) const;
  void learn_cost(const window& what, window_result& answer, time_point began);
  double ms_per_token(double hit_rate) const;
  result<void> pick_tokens(const window& what, window_result& answer);
  bus::card_report report(std::uint64_t free_bytes) const;

  std::shared_ptr<const model::checkpoint> weights_;
  std::shared_ptr<const model::tokenizer> vocabulary_;
  card_options options_;
  card_memory memory_;  // outlives the stage, whose last window may still read the slots
  std::unique_ptr<model::stage> stage_;
  clock_fn now_;

  std::unordered_map<session_id, model::completion> completions_;
  window_cost cost_;
  std::uint64_t windows_since_adapt_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_cpu_ = 0;
  std::uint64_t misses_copied_ = 0;
  bool was_resident_ = false;
  std::uint64_t flips_ = 0;                   // of was_resident_

  std::optional<resize> resize_;
  time_point resize_began_{};
  std::uint32_t reserve_mib_;                 // in force
  resize_goal goal_;                          // of the resize under way, or of the last
  std::uint32_t rounds_ = 0;                  // of it so far
  std::uint64_t mapped_before_bytes_ = 0;     // when it began
  std::optional<error> failure_;              // of it, while what it took is given back
  std::uint64_t short_bytes_ = 0;             // of the last resize
  double took_ms_ = 0;                        // of the last resize
  std::optional<std::uint64_t> fast_path_;    // the version it was built for
};

}  // namespace ebb::actors

#include "actors/card.hpp"
#include "actors/expert_map.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include "kernels/memory/host_arena.hpp"
#include "model/gpu_stage.hpp"
#include "model/host_stage.hpp"
#include <algorithm>

namespace ebb::actors {
namespace {

constexpr std::uint64_t mib = 1u << 20;

double to_mib(std::uint64_t bytes) noexcept { return static_cast<double>(bytes) / static_cast<double>(mib); }

std::uint64_t wanted_bytes(const resize_goal& goal) noexcept { return (std::uint64_t{goal.reserve_mib} + goal.extra_mib) * mib; }

std::uint64_t ceiling_bytes(const resize_goal& goal) noexcept {
  return goal.ceiling_mib ? static_cast<std::uint64_t>(*goal.ceiling_mib * static_cast<double>(mib)) : ~std::uint64_t{0};
}

std::string name_of(card_id card) { return "card " + std::to_string(card.value); }

std::uint64_t less(std::uint64_t bytes, std::uint64_t taken) noexcept { return bytes - std::min(bytes, taken); }

// The most slots that fit: one an expert, and always one.
std::uint32_t slots_in(std::uint64_t room, const kernels::slot_layout& slots, std::uint32_t n_experts) {
  return std::clamp(room >= slots.bytes_of(n_experts) ? n_experts : slots.slots_in(room), 1u, n_experts);
}

// The most slots that this card may ever use: on a host card what its size leaves beside the reserve, on a GPU what the driver says is
// free, now that the stage has taken its part, or what is left of the card's share; in whole segments.
result<std::uint32_t> slots_full(const card_options& options, const kernels::slot_layout& slots, std::uint32_t n_experts, std::uint64_t stage_bytes) {
  const std::uint64_t reserve = options.reserve_mib * mib;
  if (!options.gpu) return options.card_bytes == 0 ? n_experts : slots_in(less(options.card_bytes, reserve), slots, n_experts);
  const auto now = options.gpu->memory();
  if (!now) return fail(now.error());
  std::uint64_t room = less(now->free_bytes, reserve);
  if (options.card_bytes > 0) room = std::min(room, less(options.card_bytes, reserve + stage_bytes));
  const kernels::segment_layout of_all{options.segment_bytes, slots.bytes_of(n_experts)};
  return slots_in(of_all.round_down(room), slots, n_experts);
}

result<std::unique_ptr<model::stage>> stage_of(const std::shared_ptr<const model::checkpoint>& weights, const card_options& options,
                                               const std::shared_ptr<const model::expert_store>& store, const kernels::cpu::ops& ops,
                                               kernels::cpu::worker_pool& pool) {
  const model::stage_options of{options.layer_begin, options.layer_end, options.n_sessions, options.context};
  if (!options.gpu) return model::host_stage::make(weights, of, ops, pool);
  return model::gpu_stage::make(weights, of, store, options.gpu, ops, pool).map([](auto made) -> std::unique_ptr<model::stage> { return made; });
}

result<std::unique_ptr<kernels::arena>> arena_of(const card_options& options, const kernels::segment_layout& layout, std::uint64_t card_bytes) {
  if (options.gpu) return options.gpu->make_arena(layout);
  if (options.make_arena) return options.make_arena(layout, card_bytes);
  return kernels::host_arena::create({name_of(options.card), layout, card_bytes});
}

}  // namespace

result<std::unique_ptr<card>> card::make(std::shared_ptr<const model::checkpoint> weights,
                                         std::shared_ptr<const model::tokenizer> vocabulary, const card_options& options,
                                         const kernels::cpu::ops& ops, kernels::cpu::worker_pool& pool, clock_fn now) {
  const auto store = options.store ? options.store : model::expert_store::mapped(weights);
  auto stage = stage_of(weights, options, store, ops, pool);
  if (!stage) return fail(stage.error().code, name_of(options.card) + ": " + stage.error().text);

  const kernels::slot_layout slots(weights->experts().expert_bytes_max(options.layer_begin, options.layer_end));
  const std::uint32_t n_experts = (options.layer_end - options.layer_begin) * weights->dims().n_experts;
  const auto n_slots = slots_full(options, slots, n_experts, (*stage)->held_bytes());
  if (!n_slots) return fail(n_slots.error());
  const kernels::segment_layout layout{options.segment_bytes, slots.bytes_of(*n_slots)};
  const std::uint64_t left_free = std::max(options.reserve_mib, options.min_free_mib) * mib;
  const std::uint64_t card_bytes = options.card_bytes > 0 ? options.card_bytes : layout.full_bytes + left_free;
  auto arena = arena_of(options, layout, card_bytes);
  if (!arena) return fail(arena.error());

  card_memory memory(store, std::move(*arena), {options.layer_begin, options.layer_end, weights->dims().n_experts, *n_slots});
  if (options.heat_before) {
    const std::size_t first = std::size_t{options.layer_begin} * weights->dims().n_experts;
    EBB_ASSERT(options.heat_before->size() == std::size_t{weights->dims().n_layers} * weights->dims().n_experts);
    memory.restore_heat(std::span(*options.heat_before).subspan(first, n_experts));
  }
  return std::unique_ptr<card>(
      new card(std::move(weights), std::move(vocabulary), options, std::move(*stage), std::move(memory), std::move(now)));
}

card::card(std::shared_ptr<const model::checkpoint> weights, std::shared_ptr<const model::tokenizer> vocabulary,
           const card_options& options, std::unique_ptr<model::stage> stage, card_memory memory, clock_fn now)
    : weights_(std::move(weights)),
      vocabulary_(std::move(vocabulary)),
      options_(options),
      memory_(std::move(memory)),
      stage_(std::move(stage)),
      now_(std::move(now)),
      reserve_mib_(options.reserve_mib) {}

result<void> card::open(const session_opening& opening) {
  EBB_ASSERT(opening.place < options_.n_sessions);
  if (!last_stage()) return {};
  auto answer = model::completion::make(vocabulary_, opening.order->prompt, opening.order->params);
  if (!answer) return fail(answer.error());
  const bool fresh = completions_.emplace(opening.session, std::move(*answer)).second;
  EBB_ASSERT(fresh);
  return {};
}

void card::close(session_id session, std::uint32_t place) {
  completions_.erase(session);
  stage_->forget(place);
}

std::optional<picked_token> card::cancel(session_id session) {
  const auto found = completions_.find(session);
  if (found == completions_.end()) return std::nullopt;
  picked_token last{.session = session, .finish = model::finish::cancelled};
  last.text = found->second.cancel();
  last.logits_hash = found->second.logits_hash_hex();
  return last;
}

result<window_result> card::run(const window& what) {
  EBB_ASSERT(what.rows.size() == what.tokens.size());
  EBB_ASSERT(first_stage() == (what.x == nullptr));
  EBB_DASSERT(memory_.as_published());
  const time_point began = now_();
  const std::size_t n_values = what.rows.size() * weights_->dims().d_model;
  auto x = first_stage() ? std::make_shared<std::vector<float>>(n_values) : std::make_shared<std::vector<float>>(*what.x);
  EBB_ASSERT(x->size() == n_values);
  if (first_stage()) stage_->embed(what.tokens, x->data());
  std::vector<std::uint32_t> sampled;
  sampled.reserve(what.sampled.size());
  for (const sampled_row& wanted : what.sampled) sampled.push_back(wanted.row);
  if (auto ran = stage_->run(what.rows, sampled, memory_.table(), x->data(), {fast_path(), memory_.arena().copies_under_way()}); !ran) {
    return fail(ran.error().code, name_of(options_.card) + ": " + ran.error().text);
  }

  window_result answer{.number = what.number};
  count_picks(what, answer);
  if (last_stage()) {
    if (auto picked = pick_tokens(what, answer); !picked) return fail(picked.error());
  } else {
    answer.x = std::move(x);
  }
  EBB_DASSERT(memory_.as_published());
  learn_cost(what, answer, began);
  return answer;
}

// Windows of one row only: that is a session that decodes alone, which a plan speaks of.
void card::learn_cost(const window& what, window_result& answer, time_point began) {
  if (what.rows.size() != 1) return;
  answer.took_ms = milliseconds_between(began, now_());
  cost_.note(answer.picks_per_row - answer.hits[0], answer.took_ms);
}

double card::ms_per_token(double hit_rate) const {
  const double picks = (options_.layer_end - options_.layer_begin) * weights_->dims().top_k;
  return cost_.ms((1 - hit_rate) * picks).value_or(0);
}

void card::count_picks(const window& what, window_result& answer) {
  const auto n_rows = static_cast<std::uint32_t>(what.rows.size());
  const bool all_hit = fast_path();
  answer.picks_per_row = (options_.layer_end - options_.layer_begin) * weights_->dims().top_k;
  answer.hits.assign(n_rows, all_hit ? answer.picks_per_row : 0);
  for (std::uint32_t layer = options_.layer_begin; layer < options_.layer_end; ++layer) {
    for (std::uint32_t row = 0; row < n_rows; ++row) {
      for (const std::uint32_t index : stage_->picked(layer, row)) {
        const expert_id expert{layer, index};
        memory_.note(expert, 1.0);
        if (!all_hit && memory_.table().at(expert).in_slot) ++answer.hits[row];
      }
    }
  }
  memory_.end_window();
  std::uint64_t hits = 0;
  for (const std::uint32_t of_row : answer.hits) hits += of_row;
  const std::uint64_t misses = std::uint64_t{answer.picks_per_row} * n_rows - hits;
  const std::uint64_t on_cpu = stage_->misses_on_cpu(misses);
  EBB_ASSERT(on_cpu <= misses);
  hits_ += hits;
  misses_cpu_ += on_cpu;
  misses_copied_ += misses - on_cpu;
}

// After whatever may have brought experts or taken them away.
void card::count_flip() noexcept {
  if (memory_.resident() == was_resident_) return;
  was_resident_ = !was_resident_;
  ++flips_;
}

void card::show_logprobs(const model::row_logprobs& of, picked_token& into) const {
  into.logprob = of.picked;
  for (const model::token_logprob& each : of.likeliest) {
    into.top.push_back({each.token, std::string(vocabulary_->bytes_of(each.token, true)), each.logprob});
  }
}

result<void> card::pick_tokens(const window& what, window_result& answer) {
  const std::size_t n_vocab = weights_->dims().n_vocab;
  for (std::size_t i = 0; i < what.sampled.size(); ++i) {
    const auto found = completions_.find(what.sampled[i].session);
    if (found == completions_.end()) {
      return fail(errc::unknown_session, "session " + std::to_string(what.sampled[i].session.value) + " is not open on " + name_of(options_.card));
    }
    model::step step = found->second.accept(stage_->logits().subspan(i * n_vocab, n_vocab));
    picked_token picked{.session = what.sampled[i].session, .token = step.token, .text = std::move(step.text), .finish = step.reason};
    if (step.reason != model::finish::none) picked.logits_hash = found->second.logits_hash_hex();
    if (step.logprobs) show_logprobs(*step.logprobs, picked);
    answer.picked.push_back(std::move(picked));
  }
  return {};
}

void card::adapt() {
  if (resizing() || memory_.resident()) return;
  if (++windows_since_adapt_ < limits::adapt_period_windows) return;
  windows_since_adapt_ = 0;
  // Where it fails, slots stay empty and their experts are read from the store.
  static_cast<void>(memory_.swap(memory_.cache().plan_swaps(limits::adapt_swaps_max, memory_.heat(), limits::adapt_margin)));
  count_flip();
}

tl::unexpected<error> card::keeps_its_size() const {
  return fail(errc::refused, name_of(options_.card) + " keeps its size: the setting `vram_elastic` is false; set it to true and start again");
}

result<void> card::begin_resize(const resize_goal& goal) {
  if (!options_.elastic) return keeps_its_size();
  return begin(goal);
}

result<void> card::begin(const resize_goal& goal) {
  if (resizing()) return fail(errc::busy, name_of(options_.card) + " is being resized already; try again when that has ended");
  const auto planned = plan(goal);
  if (!planned) return fail(planned.error());
  if (planned->short_bytes > (goal.extra_mib - goal.extra_min_mib) * mib && goal.extra_min_mib > 0) {
    const double could = std::max(0.0, goal.extra_mib - to_mib(planned->short_bytes));
    return fail(errc::short_of, name_of(options_.card) + " can free " + std::to_string(static_cast<std::uint64_t>(could)) + " MiB beside its reserve of " +
                                    std::to_string(goal.reserve_mib) + " MiB, and " + std::to_string(goal.extra_min_mib) +
                                    " are asked for; nothing has changed");
  }
  resize_began_ = now_();
  goal_ = goal;
  rounds_ = 0;
  mapped_before_bytes_ = memory_.arena().mapped_bytes();
  failure_.reset();
  begin_towards(planned->keep_bytes);
  return {};
}

result<resize_plan> card::plan(const resize_goal& goal) const {
  const auto free_bytes = memory_.arena().free_bytes();
  if (!free_bytes) return fail(free_bytes.error());
  return plan(goal, *free_bytes);
}

resize_plan card::plan(const resize_goal& goal, std::uint64_t free_bytes) const {
  resize_inputs inputs{.mapped_bytes = memory_.arena().mapped_bytes(),
                       .free_bytes = free_bytes,
                       .wanted_free_bytes = wanted_bytes(goal),
                       .floor_bytes = 0,
                       .ceiling_bytes = ceiling_bytes(goal)};
  const resize_plan planned = plan_resize(memory_.arena().layout(), inputs);
  if (planned.keep_bytes <= inputs.mapped_bytes) return planned;
  // What is there may stay below this mark, which no command asks for; but nothing is added below it.
  inputs.wanted_free_bytes = std::max(inputs.wanted_free_bytes, options_.min_free_mib * mib);
  inputs.floor_bytes = inputs.mapped_bytes;
  return {plan_resize(memory_.arena().layout(), inputs).keep_bytes, planned.short_bytes};
}

void card::begin_towards(std::uint64_t keep_bytes) {
  ++rounds_;
  resize_.emplace(memory_, keep_bytes);
  if (resize_->shrinks()) fast_path_.reset();
}

bool card::resize_step() {
  EBB_ASSERT(resizing());
  const bool done = resize_->step(now_, now_() + limits::resize_step);
  count_flip();
  return done && settled();
}

// The device is asked again once the memory has moved: somebody else may have taken what was just freed, or the pages of a growth
// cost more than they seemed to. Then the cache steps back further, a few times at most.
// A growth that failed gives back what it took: the reserve of before holds on, and may not leave room for it.
bool card::settled() {
  if (failure_) return true;
  if (!resize_->outcome() && memory_.arena().mapped_bytes() > mapped_before_bytes_) {
    failure_ = resize_->outcome().error();
    begin_towards(mapped_before_bytes_);
    return false;
  }
  if (!resize_->outcome() || rounds_ >= limits::resize_rounds_max) return true;
  const auto again = plan(goal_);
  if (!again || again->keep_bytes >= memory_.arena().mapped_bytes()) return true;
  begin_towards(again->keep_bytes);
  return false;
}

result<resize_outcome> card::end_resize() {
  EBB_ASSERT(resizing());
  const result<void> outcome = failure_ ? fail(*failure_) : resize_->outcome();
  resize_.reset();
  took_ms_ = milliseconds_between(resize_began_, now_());
  EBB_DASSERT(memory_.consistent());
  if (!outcome) {
    return fail(outcome.error().code, outcome.error().text + "; " + name_of(options_.card) + " now holds " +
                                          std::to_string(memory_.cache().slots_usable()) + " expert slots and keeps its reserve of " +
                                          std::to_string(reserve_mib_) + " MiB");
  }
  const auto free_bytes = memory_.arena().free_bytes();
  if (!free_bytes) return fail(free_bytes.error());  // the size may have changed; the ledger brings it back to what it holds
  reserve_mib_ = goal_.reserve_mib;
  const std::uint64_t wanted = wanted_bytes(goal_), ceiling = ceiling_bytes(goal_), mapped = memory_.arena().mapped_bytes();
  short_bytes_ = std::max(wanted > *free_bytes ? wanted - *free_bytes : 0, mapped > ceiling ? mapped - ceiling : 0);
  return resize_outcome{report(*free_bytes), plan(goal_, *free_bytes).keep_bytes > mapped};
}

result<bus::card_plan> card::foresee(const resize_goal& goal) const {
  if (!options_.elastic && goal.reserve_mib != reserve_mib_) return keeps_its_size();
  const auto planned = plan(goal);
  if (!planned) return fail(planned.error());
  bus::card_plan said;
  said.device = options_.card.value;
  said.layers = options_.layer_end - options_.layer_begin;
  said.reserve_mib = goal.reserve_mib;
  said.expert_slots = std::min(memory_.cache().slots_full(), memory_.slots().slots_in(planned->keep_bytes));
  said.expert_cache_mib = to_mib(planned->keep_bytes);
  said.short_mib = to_mib(planned->short_bytes);
  said.hit_rate = memory_.heat().share_of_hottest(said.expert_slots);
  said.hit_rate_now = memory_.heat().share_of_hottest(memory_.cache().resident_count());
  said.ms_per_token = ms_per_token(said.hit_rate);
  said.ms_per_token_now = ms_per_token(said.hit_rate_now);
  return said;
}

void card::adopt_fast_path(std::uint64_t version) noexcept {
  if (version == memory_.version() && memory_.resident()) fast_path_ = version;
}

residency_change card::residency() const noexcept {
  return {options_.card, memory_.version(), memory_.cache().resident_count(), memory_.cache().experts().count()};
}

bus::card_report card::report(std::uint64_t free_bytes) const {
  bus::card_report said;
  said.device = options_.card.value;
  said.reserve_mib = reserve_mib_;
  said.expert_slots = memory_.cache().slots_usable();
  said.expert_slots_full = memory_.cache().slots_full();
  said.expert_cache_mib = to_mib(memory_.arena().mapped_bytes());
  said.expert_cache_full_mib = to_mib(memory_.arena().layout().full_bytes);
  said.vram_free_mib = to_mib(free_bytes);
  said.prompt_chunk = std::min(options_.prompt_chunk_rows, stage_->chunk_rows());
  said.short_mib = to_mib(short_bytes_);
  said.took_ms = took_ms_;
  return said;
}

cache_size card::size() const {
  return {reserve_mib_, to_mib(memory_.arena().mapped_bytes()), to_mib(memory_.arena().layout().full_bytes)};
}

bus::expert_map card::experts() const { return map_of(options_.card, memory_.cache(), memory_.heat()); }

stage_heat card::heat() const { return {options_.layer_begin, memory_.heat().heats()}; }

bus::card_info card::info(std::uint64_t free_bytes) const {
  bus::card_info said;
  said.report = report(free_bytes);
  said.kind = options_.gpu ? "cuda" : "host";
  said.layer_begin = options_.layer_begin;
  said.layer_end = options_.layer_end;
  said.resident = memory_.resident();
  said.fast_path = fast_path();
  said.hits = hits_;
  said.misses = misses_cpu_ + misses_copied_;
  said.misses_cpu = misses_cpu_;
  said.misses_copied = misses_copied_;
  said.flips = flips_;
  said.slots_to_fill = resize_ ? resize_->slots_to_fill() : 0;
  if (!options_.gpu) {
    said.rss_mib = to_mib(memory_.arena().held_bytes());
    return said;
  }
  const kernels::gpu_description& about = options_.gpu->about();
  said.gpu = about.number;
  said.gpu_name = about.name;
  said.pci_address = about.pci_address;
  said.uuid = about.uuid;
  said.held_mib = to_mib(stage_->held_bytes() + memory_.arena().held_bytes());
  return said;
}

}  // namespace ebb::actors

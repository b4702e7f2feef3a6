#include "tools/engine.hpp"
#include "actors/card_actor.hpp"
#include "actors/gateway_actor.hpp"
#include "actors/one_thread.hpp"
#include "actors/profile_actor.hpp"
#include "actors/watcher_actor.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include "kernels/memory/system_memory.hpp"
#include "model/expert_store.hpp"
#include "model/vocabulary.hpp"
#include "tools/heat_split.hpp"
#include "tools/layer_split.hpp"
#include "tools/open_gpus.hpp"
#include "tools/process_memory.hpp"
#include "tools/version.hpp"
#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

namespace ebb::tools {
namespace {

constexpr std::uint64_t mib = 1u << 20;

std::uint32_t or_default(std::uint32_t chosen, std::uint32_t otherwise) { return chosen == 0 ? otherwise : chosen; }

// The actors that are not cards only pass messages on: two threads are enough, and more would take cores from the kernels.
std::unique_ptr<caf::actor_system_config> system_config(const engine_world& world) {
  auto config = std::make_unique<caf::actor_system_config>();
  if (world.one_thread) {
    actors::one_thread::configure(*config);
    return config;
  }
  config->set("scheduler.policy", caf::atom("sharing"));
  config->set("scheduler.max-threads", 2u);
  return config;
}

bus::status_report describe(const model::checkpoint& weights, const settings& from, std::uint32_t context) {
  bus::status_report about;
  about.version = version;
  about.state = "ready";
  about.model = from.model;
  about.architecture = std::string(weights.family().name);
  about.layers = weights.dims().n_layers;
  about.experts = weights.dims().n_experts;
  about.context = context;
  return about;
}

bus::status_report measured(bus::status_report report, std::chrono::nanoseconds uptime) {
  const process_memory memory = read_process_memory();
  report.rss_mib = memory.rss_mib;
  report.rss_anon_mib = memory.rss_anon_mib;
  report.uptime_s = std::chrono::duration<double>(uptime).count();
  return report;
}

error stopped() { return {errc::cancelled, "told to stop while the model was being loaded"}; }

// What contradicts itself is refused rather than ignored.
result<void> refuse_contradictions(const settings& from) {
  if (from.auto_yield && !from.vram_elastic) {
    return fail(errc::bad_value, "setting `auto_yield`: caches keep their size while `vram_elastic` is false; set that to true, or this to false");
  }
  return {};
}

bool any_gpu(const std::vector<actors::card_options>& cards) {
  return std::any_of(cards.begin(), cards.end(), [](const actors::card_options& card) { return card.gpu != nullptr; });
}

// A host card of the run bounds how long a window of many rows may take.
actors::prompt_chunk prompt_chunk_of(const std::vector<card_choice>& cards) {
  const bool only_gpus = std::all_of(cards.begin(), cards.end(), [](const card_choice& card) { return card.kind == card_kind::cuda; });
  if (!only_gpus) return {};
  return {limits::prompt_chunk_rows_gpu, limits::prompt_chunk_rows_gpu_shared};
}

// Host cards all lie in the system's memory, and each of them only knows its own; cards on one GPU lie in its.
std::vector<std::uint32_t> memories_of(const std::vector<card_choice>& cards) {
  std::vector<std::uint32_t> memories;
  for (const card_choice& card : cards) memories.push_back(card.kind == card_kind::cuda ? card.gpu + 1 : 0);
  return memories;
}

// Whether all of them end within so long.
bool all_end(caf::scoped_actor& self, const std::vector<caf::actor>& whom, std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (const caf::actor& each : whom) self->monitor(each);
  std::size_t missing = whom.size();
  bool in_time = true;
  while (missing > 0 && in_time) {
    const auto left = std::max(std::chrono::steady_clock::duration(0), until - std::chrono::steady_clock::now());
    self->receive([&](const caf::down_msg&) { --missing; }, caf::after(left) >> [&] { in_time = false; });
  }
  return missing == 0;
}

// Cards on one GPU go by its free figure; each host card by its own size.
std::vector<std::uint32_t> free_figures_of(const std::vector<card_choice>& cards) {
  std::vector<std::uint32_t> figures;
  for (const card_choice& card : cards) {
    const auto number = static_cast<std::uint32_t>(figures.size());
    const auto same = std::find_if(cards.begin(), cards.begin() + number, [&](const card_choice& each) { return card.kind == card_kind::cuda && each == card; });
    figures.push_back(same == cards.begin() + number ? number : static_cast<std::uint32_t>(same - cards.begin()));
  }
  return figures;
}

// Each device has a window of its own to work on.
std::uint32_t windows_at_once(const std::vector<card_choice>& cards) {
  const auto memories = memories_of(cards);
  return static_cast<std::uint32_t>(std::set(memories.begin(), memories.end()).size());
}

}  // namespace

// Handles must be gone before the system is, or its destructor waits for ever; members die in the reverse of this order.
class engine::cast {
 public:
  cast(engine& of, const engine_options& options, reply_sink sink);
  ~cast() { stop(); }

  result<void> load_cards(const std::stop_token& stop);
  bool stop();  // whether all have ended, within the patience of the world
  const actors::gateway_actor& gateway() const noexcept { return gateway_; }
  std::atomic<std::size_t>& backlog() noexcept { return backlog_; }
  const std::vector<bus::card_report>& loaded() const noexcept { return loaded_; }

  actors::one_thread& turns() {
    EBB_ASSERT(turns_.has_value());
    return *turns_;
  }

 private:
  void spawn_cards(const engine& of, const engine_options& options);
  void spawn_profile(const engine& of, const engine_options& options);
  void spawn_watcher(const engine& of, const engine_options& options, std::vector<std::optional<double>> ceilings_mib);

  // With a thread of its own, for what blocks: a device, a disk.
  template <class... Arguments>
  auto spawn_apart(Arguments&&... what) {
    if (turns_) return system_.spawn(std::forward<Arguments>(what)...);
    return system_.spawn<caf::detached>(std::forward<Arguments>(what)...);
  }

  // What has just been asked for is answered, where actors do nothing of themselves.
  void settle() {
    if (turns_) turns_->run_to_rest();
  }

  std::unique_ptr<caf::actor_system_config> config_;
  caf::actor_system system_{*config_};
  std::optional<actors::one_thread> turns_;  // none: actors run in threads of their own
  actors::residency_actor residency_;
  std::vector<actors::card_actor> cards_;
  actors::ledger_actor ledger_;
  actors::profile_actor profile_;  // none: no profile is kept
  actors::watcher_actor watcher_;  // none: nothing is given unasked
  actors::scheduler_actor scheduler_;
  actors::gateway_actor gateway_;
  std::vector<bus::card_report> loaded_;  // what each card held when it was ready
  std::chrono::milliseconds stop_patience_;
  std::optional<bool> stopped_;  // and whether all have ended
  std::atomic<std::size_t> backlog_ = 0;  // frames in the gateway's mailbox
};

engine::cast::cast(engine& of, const engine_options& options, reply_sink sink)
    : config_(system_config(options.world)), stop_patience_(options.world.stop_patience) {
  const settings& from = options.from;
  const engine_world& world = options.world;
  if (world.one_thread) turns_.emplace(system_);
  spawn_cards(of, options);
  if (!turns_) spawn_profile(of, options);  // virtual time knows no disk
  std::vector<std::optional<double>> ceilings_mib;
  for (const actors::card_options& card : of.card_options_) ceilings_mib.push_back(of.ledger_->yield_mib(card.card));
  actors::ledger_options ledger{.book = *std::exchange(of.ledger_, std::nullopt),
                                .now = world.now,
                                .unix_ms = world.unix_ms,
                                .write_down = options.state.write_down,
                                .processes = world.processes,
                                .tell = options.tell,
                                .memories = free_figures_of(of.chosen_.cards),
                                .contexts = any_gpu(of.card_options_)};
  ledger_ = spawn_apart(actors::ledger_behavior, cards_, std::move(ledger));
  if (from.auto_yield && !turns_) spawn_watcher(of, options, std::move(ceilings_mib));  // and no neighbours
  scheduler_ = system_.spawn(actors::scheduler_behavior, cards_,
                             actors::scheduler_options{from.parallel, limits::repeat_windows_max, world.now, options.tell, prompt_chunk_of(of.chosen_.cards),
                                                       windows_at_once(of.chosen_.cards)});
  const auto today = [unix_ms = world.unix_ms] { return std::chrono::sys_seconds(std::chrono::seconds(unix_ms() / 1000)); };
  actors::chat_prompt conversations(of.chat_->chat, of.vocabulary_, today);
  actors::gateway_options gateway{
      .about = describe(*of.weights_, from, of.context_),
      .orders = std::make_shared<const actors::order_maker>(of.vocabulary_, std::move(conversations), from.sampling, of.context_),
      .sink = std::move(sink),
      .measure = [now = world.now, began = world.now()](bus::status_report report) { return measured(std::move(report), now() - began); },
      .request_taken = [this] { backlog_.fetch_sub(1, std::memory_order_relaxed); },
      .events = options.events};
  gateway_ = system_.spawn(actors::gateway_behavior, scheduler_, ledger_, cards_, std::move(gateway));
}

void engine::cast::spawn_cards(const engine& of, const engine_options& options) {
  residency_ = system_.spawn(actors::residency_behavior, options.tell);
  for (const actors::card_options& card : of.card_options_) {
    const actors::card_factory make = [&of, card, now = options.world.now] {
      return actors::card::make(of.weights_, of.vocabulary_, card, kernels::cpu::ops_for(of.isa_), *of.pool_, now);
    };
    cards_.push_back(spawn_apart(actors::card_behavior, make, residency_));
  }
}

void engine::cast::spawn_profile(const engine& of, const engine_options& options) {
  if (!of.profile_) return;
  actors::keep_heat keep = [file = *of.profile_, warn = options.warn](std::vector<float> heat) {
    if (auto written = file.write(std::move(heat)); !written) warn(written.error());
  };
  profile_ = system_.spawn<caf::detached>(actors::profile_behavior, cards_, std::move(keep));
}

void engine::cast::spawn_watcher(const engine& of, const engine_options& options, std::vector<std::optional<double>> ceilings_mib) {
  std::vector<std::shared_ptr<kernels::gpu>> gpus;
  for (const actors::card_options& card : of.card_options_) gpus.push_back(card.gpu);
  const auto free_bytes = [gpus = std::move(gpus)](card_id card) -> result<std::uint64_t> {
    if (!gpus[card.value]) return kernels::available_memory_bytes();
    return gpus[card.value]->memory().map([](const kernels::memory_figures& now) { return now.free_bytes; });
  };
  actors::watcher_options watch{.now = actors::steady_clock(),
                                .free_bytes = free_bytes,
                                .min_free_mib = options.from.min_free_vram_mib,
                                .ceilings_mib = std::move(ceilings_mib),
                                .memories = memories_of(of.chosen_.cards),
                                .tell = options.tell};
  watcher_ = system_.spawn<caf::detached>(actors::watcher_behavior, cards_, ledger_, std::move(watch));
}

// A card that is told to end in the middle answers so between two steps.
result<void> engine::cast::load_cards(const std::stop_token& stop) {
  caf::scoped_actor self(system_);
  const std::stop_callback end_early(stop, [this] {
    for (const auto& card : cards_) caf::anon_send_exit(card, caf::exit_reason::user_shutdown);
  });
  std::optional<error> failure;
  for (const auto& card : cards_) {
    auto loading = self->request(card, caf::infinite, actors::load_atom::value);
    settle();
    loading.receive([&](const bus::card_info& info) { loaded_.push_back(info.report); },
                    [&](const caf::error& why) { failure = actors::from_caf(why); });
    if (stop.stop_requested()) return fail(stopped());
    if (failure) return fail(*failure);
  }
  return {};
}

bool engine::cast::stop() {
  if (stopped_) return *stopped_;
  stopped_ = true;
  const auto patience = std::min<std::chrono::milliseconds>(limits::stop_timeout, stop_patience_);  // for an answer
  // Each by an actor of its own: a time-out that comes after the answer would stay in its mailbox for good.
  const auto ask = [&](const auto& whom, auto what, auto answered) {
    caf::scoped_actor asking(system_);
    auto answer = asking->request(whom, patience, what);
    settle();
    answer.receive(answered, [](const caf::error&) {});
  };
  ask(scheduler_, actors::stop_atom::value, [](const actors::scheduler_state&) {});
  ask(gateway_, actors::stop_atom::value, [] {});
  caf::scoped_actor self(system_);
  std::vector<caf::actor> all;
  const auto end = [&](const auto& whom) {
    self->send_exit(whom, caf::exit_reason::user_shutdown);
    all.push_back(caf::actor_cast<caf::actor>(whom));
  };
  if (watcher_) end(watcher_);
  if (profile_) {
    ask(profile_, actors::save_atom::value, [](std::uint64_t) {});
    end(profile_);
  }
  end(gateway_);
  end(scheduler_);
  end(ledger_);
  for (const auto& card : cards_) end(card);
  end(residency_);
  settle();
  stopped_ = all_end(self, all, stop_patience_);
  return *stopped_;
}

engine::engine() = default;

// A card whose GPU does not answer keeps its thread, and waiting for that might have no end: what it uses is kept by a thread of its own, until
// the card has ended or the process has.
engine::~engine() {
  if (!cast_ || cast_->stop()) return;
  caf::logger::set_current_actor_system(nullptr);  // the system waits for every thread that holds its logger, as the one that made it does
  left_behind_(std::thread([cast = std::move(cast_), pool = std::move(pool_)]() mutable {
    cast.reset();
    pool.reset();
  }));
}

result<std::unique_ptr<engine>> engine::start(const engine_options& options, reply_sink sink) {
  std::unique_ptr<engine> started(new engine);
  started->left_behind_ = options.world.left_behind;
  if (auto sane = refuse_contradictions(options.from); !sane) return fail(sane.error());
  if (auto opened = started->open_model(options); !opened) return fail(opened.error());
  if (auto chosen = started->choose_devices(options); !chosen) return fail(chosen.error());
  started->restore_profile(options);
  if (auto planned = started->plan_cards(options); !planned) return fail(planned.error());
  if (auto read = started->read_weights(options); !read) return fail(read.error());
  if (auto restored = started->restore_ledger(options); !restored) return fail(restored.error());
  started->cast_ = std::make_unique<cast>(*started, options, std::move(sink));
  if (auto loaded = started->cast_->load_cards(options.stop); !loaded) return fail(loaded.error());
  options.tell(bus::model_loaded{options.from.model, static_cast<std::uint32_t>(started->card_options_.size())});
  return started;
}

bool engine::stop() { return cast_->stop(); }

bool engine::run_once() { return cast_->turns().run_once(); }
std::optional<std::chrono::nanoseconds> engine::until_timer() const { return cast_->turns().until_timer(); }
void engine::pass(std::chrono::nanoseconds time) { cast_->turns().pass(time); }

const std::vector<bus::card_report>& engine::loaded() const noexcept { return cast_->loaded(); }

std::size_t engine::backlog() const noexcept { return cast_->backlog().load(std::memory_order_relaxed); }

void engine::submit(const bus::client_id& client, const bus::request& asked) {
  cast_->backlog().fetch_add(1, std::memory_order_relaxed);
  caf::anon_send(cast_->gateway(), actors::frame_atom::value, client, asked);
}

void engine::client_left(const bus::client_id& client) { caf::anon_send(cast_->gateway(), actors::gone_atom::value, client); }

result<void> engine::open_model(const engine_options& options) {
  if (options.from.model.empty()) {
    return fail(errc::missing_key, "no model: name a GGUF file, with the setting `model` or on the command line");
  }
  auto weights = model::checkpoint::open(options.from.model);
  if (!weights) return fail(weights.error());
  weights_ = std::move(*weights);
  auto vocabulary = model::read_vocabulary(weights_->file());
  if (!vocabulary) return fail(vocabulary.error());
  vocabulary_ = std::move(*vocabulary);
  chat_ = model::read_chat_template(weights_->file());
  auto isa = kernels::cpu::choose(options.forced_isa);
  if (!isa) return fail(isa.error());
  isa_ = *isa;
  return {};
}

result<void> engine::choose_devices(const engine_options& options) {
  auto chosen = choose_cards(options.from.cards, options.world.gpus);
  if (!chosen) return fail(chosen.error());
  chosen_ = std::move(*chosen);
  if (chosen_.warning) options.warn(*chosen_.warning);
  if (!chosen_.driver) return {};
  return wait_for_gpus(options, [&] { return chosen_.driver->list(); });
}

result<void> engine::wait_for_gpus(const engine_options& options, const gpu_reader& read) {
  const free_vram_wait how{.min_free_mib = options.from.min_free_vram_mib,
                           .now = options.world.now,
                           .pause = options.world.pause,
                           .tell = [&](const std::string& text) { options.warn({errc::busy, text}); },
                           .stop = options.stop};
  auto gpus = wait_for_free_vram(read, chosen_.cards, how);
  if (!gpus) return fail(gpus.error());
  gpus_ = std::move(*gpus);
  return {};
}

// The GPUs are asked again once they are open, since without NVML nothing was known of them before: only a context tells what is free.
result<std::vector<std::shared_ptr<kernels::gpu>>> engine::take_gpus(const engine_options& options) {
  auto opened = open_gpus(chosen_);
  if (!opened) return opened;
  const auto is_unknown = [](const kernels::gpu_description& gpu) { return !gpu.free_bytes.has_value(); };
  if (std::none_of(gpus_.begin(), gpus_.end(), is_unknown)) return opened;
  const auto read = [before = gpus_, &opened] { return read_by_context(before, *opened); };
  if (auto waited = wait_for_gpus(options, read); !waited) return fail(waited.error());
  return opened;
}

// Host cards read the mapped file, which is brought into memory once; the store of a GPU is a copy, which gives up what the system kept
// of those pages, so it comes second.
result<void> engine::read_weights(const engine_options& options) {
  std::uint32_t layers_done = 0;
  const auto progress_of = [&](std::uint32_t layers) {
    return [&options, begin = layers_done, layers, all = weights_->dims().n_layers](double share) {
      if (options.progress) options.progress((begin + share * layers) / all);
    };
  };
  const auto n_layers = [](const actors::card_options& card) { return card.layer_end - card.layer_begin; };
  std::uint32_t host_layers = 0;
  for (const actors::card_options& card : card_options_) host_layers += card.gpu ? 0 : n_layers(card);
  if (host_layers > 0) weights_->warm(progress_of(host_layers), options.stop);
  layers_done += host_layers;
  for (actors::card_options& card : card_options_) {
    if (options.stop.stop_requested()) return fail(stopped());
    if (!card.gpu) continue;
    const kernels::store_options how{"card " + std::to_string(card.card.value), pool_->n_threads(), progress_of(n_layers(card)), options.stop};
    auto store = model::expert_store::pinned(weights_, card.layer_begin, card.layer_end, card.gpu, how);
    if (!store) return fail(store.error());
    if (!(*store)->warning().empty()) options.warn({errc::out_of_memory, (*store)->warning()});
    card.store = std::move(*store);
    layers_done += n_layers(card);
  }
  if (options.stop.stop_requested()) return fail(stopped());
  return {};
}

// The cards are filled to what the last daemon promised, so that a lease holds from the first moment.
result<void> engine::restore_ledger(const engine_options& options) {
  std::vector<std::uint32_t> reserves;
  for (const actors::card_options& card : card_options_) reserves.push_back(card.reserve_mib);
  ledger_.emplace(std::move(reserves));
  if (!options.state.before) return {};
  if (auto restored = ledger_->restore(*options.state.before, options.world.now(), options.world.unix_ms()); !restored) {
    auto told = options.state.set_aside ? options.state.set_aside(restored.error()) : result<error>(restored.error());
    if (!told) return fail(told.error());
    state_refused_ = *std::move(told);
    return {};
  }
  for (actors::card_options& card : card_options_) {
    if (!options.from.auto_yield) ledger_->yield(card.card, std::nullopt);  // nobody would ever lift it
    const std::uint32_t reserve = ledger_->reserve_mib(card.card);
    card.held_goal = {.reserve_mib = reserve, .extra_mib = 0, .extra_min_mib = 0, .ceiling_mib = ledger_->ceiling_mib(card.card, reserve)};
  }
  return {};
}

// Layers are shared out by what was hot in earlier runs, and the cards filled with it.
void engine::restore_profile(const engine_options& options) {
  profile_ = profile_file::of(options.from.model, weights_->dims(), options.from.profile, options.profile_folder);
  if (!profile_) return;
  auto before = profile_->read();
  if (!before) {
    options.warn(before.error());
    if (before.error().code == errc::refused) profile_.reset();
    return;
  }
  if (!*before) return;
  heat_before_ = std::make_shared<const std::vector<float>>(std::move(**before));
}

// In proportion to what is free, or, once it is known which experts are hot, so that most of the heat fits.
result<std::vector<layer_range>> engine::share_out_layers(const settings& from) const {
  const std::vector<card_choice>& cards = chosen_.cards;
  const std::vector<double> shares = shares_of(cards, gpus_);
  const model::shape& dims = weights_->dims();
  auto ranges = split_layers(dims.n_layers, cards.size(), from.layers, shares);
  if (!ranges || !from.layers.empty() || shares.empty() || !heat_before_) return ranges;
  const auto bytes_of = [](const kernels::weights& matrix) { return matrix.n_rows * matrix.row_bytes(); };
  layer_costs costs{.dense_bytes = 0, .slot_bytes = weights_->experts().expert_bytes_max(0, dims.n_layers)};
  for (std::uint32_t number = 0; number < dims.n_layers; ++number) {
    const model::layer_weights& layer = weights_->layer(number);
    const std::uint64_t bytes = bytes_of(layer.attn_q) + bytes_of(layer.attn_k) + bytes_of(layer.attn_v) + bytes_of(layer.attn_output) + bytes_of(layer.router);
    costs.dense_bytes = std::max(costs.dense_bytes, bytes);
  }
  constexpr std::uint64_t keys_and_values = 2 * sizeof(std::uint16_t);
  costs.dense_bytes += keys_and_values * from.parallel * context_ * dims.n_kv_heads * dims.head_dim;
  std::vector<card_room> rooms;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const bool last = i + 1 == cards.size();
    rooms.push_back({.free_bytes = static_cast<std::uint64_t>(shares[i]),
                     .fixed_bytes = reserve_mib(from, cards[i].kind, i) * mib + (last ? bytes_of(weights_->output()) : 0)});
  }
  return split_layers(dims.n_layers, cards.size(), first_layers_by_heat(*heat_before_, dims.n_experts, rooms, costs, *ranges));
}

result<void> engine::plan_cards(const engine_options& options) {
  const settings& from = options.from;
  const std::vector<card_choice>& chosen = chosen_.cards;
  const std::uint32_t model_context = weights_->dims().context_length;
  context_ = or_default(from.context, model_context);
  if (context_ > model_context) {
    return fail(errc::bad_value, "setting `context`: " + std::to_string(context_) + " is more than the " + std::to_string(model_context) +
                                     " positions that the model was made for");
  }
  if (from.vram_reserve_mib.size() > 1 && from.vram_reserve_mib.size() != chosen.size()) {
    return fail(errc::bad_value, "setting `vram_reserve_mib`: " + std::to_string(from.vram_reserve_mib.size()) + " numbers for " +
                                     std::to_string(chosen.size()) + " card(s); give one for all, or one a card");
  }
  const auto gpus = take_gpus(options);
  if (!gpus) return fail(gpus.error());
  const auto ranges = share_out_layers(from);
  if (!ranges) return fail(ranges.error());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    card_options_.push_back({.card = {static_cast<std::uint32_t>(i)},
                             .layer_begin = (*ranges)[i].begin,
                             .layer_end = (*ranges)[i].end,
                             .n_sessions = from.parallel,
                             .context = context_,
                             .segment_bytes = segment_bytes(from, chosen[i].kind),
                             .card_bytes = chosen[i].kind == card_kind::host ? from.host_card_mib * mib : 0,
                             .reserve_mib = reserve_mib(from, chosen[i].kind, i),
                             .min_free_mib = from.min_free_vram_mib,
                             .elastic = from.vram_elastic,
                             .heat_before = heat_before_,
                             .gpu = (*gpus)[i],
                             .prompt_chunk_rows = prompt_chunk_of(chosen).alone});
  }
  if (auto shared = share_gpus(card_options_); !shared) return shared;
  pool_ = std::make_unique<kernels::cpu::worker_pool>(or_default(from.threads, std::max(1u, std::thread::hardware_concurrency())));
  return {};
}

}  // namespace ebb::tools

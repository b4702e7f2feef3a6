#include "tools/virtual_engine.hpp"
#include "bus/codec.hpp"
#include "tools/journal_state.hpp"
#include <algorithm>
#include <map>

namespace ebb::tools {
namespace {

// Every process lives, and those that kept leases name are those that they meant.
actors::process_watch everybody_lives(const std::optional<bus::ledger_state>& kept) {
  constexpr std::uint64_t began_with_the_system = 1;
  std::map<std::uint32_t, std::uint64_t> began;
  if (kept) {
    for (const bus::lease_state& each : kept->leases) began[each.pid] = each.pid_began;
  }
  return [began = std::move(began)](std::uint32_t pid) {
    const auto known = began.find(pid);
    return known == began.end() ? began_with_the_system : known->second;
  };
}

settings for_replay(settings from) {
  const settings defaults;
  std::fill(from.cards.begin(), from.cards.end(), card_choice{});
  from.bus = defaults.bus;
  from.http = defaults.http;
  from.journal = defaults.journal;
  from.state_dir = defaults.state_dir;
  from.profile = defaults.profile;
  from.auto_yield = defaults.auto_yield;
  from.min_free_vram_mib = defaults.min_free_vram_mib;
  return from;
}

result<settings> settings_in(const bus::journal_header& run, const std::string& model) {
  settings from;
  const auto text = run.about.find("settings");
  if (text != run.about.end()) {
    if (auto applied = apply_toml(from, text->second, "settings in the journal"); !applied) return fail(applied.error());
  }
  if (!model.empty()) from.model = model;
  if (from.model.empty()) return fail(errc::missing_key, "the journal names no model; give one with --model");
  return from;
}

}  // namespace

target_factory in_virtual_time(std::string model, std::string forced_isa) {
  return [model = std::move(model), isa = std::move(forced_isa)](const bus::journal_header& run, frame_sink sink) -> result<std::unique_ptr<replay_target>> {
    auto from = settings_in(run, model);
    if (!from) return fail(from.error());
    auto kept = state_in(run.about);
    if (!kept) return fail(kept.error());
    const auto started = std::chrono::duration_cast<std::chrono::milliseconds>(run.started);
    auto engine = virtual_engine::start(std::move(*from), isa, static_cast<std::uint64_t>(started.count()), std::move(sink), *std::move(kept));
    if (!engine) return fail(engine.error());
    return std::unique_ptr<replay_target>(std::move(*engine));
  };
}

result<std::unique_ptr<virtual_engine>> virtual_engine::start(settings from, const std::string& forced_isa, std::uint64_t started_unix_ms,
                                                              frame_sink sink, std::optional<bus::ledger_state> kept) {
  std::unique_ptr<virtual_engine> started(new virtual_engine(std::move(sink)));
  virtual_engine* self = started.get();
  engine_options options;
  options.from = for_replay(std::move(from));
  options.forced_isa = forced_isa;
  options.world.processes = everybody_lives(kept);
  options.state.before = std::move(kept);
  options.world.one_thread = true;
  options.world.gpus = []() -> result<std::shared_ptr<kernels::gpu_driver>> { return fail(errc::unknown_device, "a replay has host cards only"); };
  // Not from zero, which some code may take for "never".
  options.world.now = [self] { return actors::time_point(std::chrono::hours(1)) + self->now_; };
  options.world.unix_ms = [self, started_unix_ms] {
    return started_unix_ms + static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(self->now_).count());
  };
  options.tell = [self](const bus::event_body&) { ++self->n_events_; };
  options.events = [self] { return bus::subscribed{{}, self->n_events_}; };
  auto engine = engine::start(options, [self](const bus::client_id& to, const bus::reply& what, bool text) { self->send(to, what, text); });
  if (!engine) return fail(engine.error());
  started->engine_ = std::move(*engine);
  return started;
}

void virtual_engine::finish_before() {
  if (std::exchange(replied_, false) && answering_.empty()) run_to_rest();
}

void virtual_engine::stop() {
  finish_before();
  engine_->stop();
}

result<void> virtual_engine::take(const bus::client_id& from, bus::bytes_view frame) {
  finish_before();
  auto asked = bus::decode_request(frame);
  if (!asked) {
    const bool text = asked.error().text;
    send(from, bus::to_reply(std::move(asked.error())), text);
    return {};
  }
  if (std::holds_alternative<bus::generate>(asked->command)) answering_.insert({from, asked->id});
  engine_->submit(from, *asked);
  return {};
}

void virtual_engine::client_left(const bus::client_id& who) {
  finish_before();
  std::erase_if(answering_, [&](const auto& each) { return each.first == who; });
  engine_->client_left(who);
}

void virtual_engine::run_to_rest() {
  while (engine_->run_once()) {
  }
}

void virtual_engine::move_to(std::chrono::nanoseconds at) {
  while (now_ < at) {
    if (answering_.empty()) run_to_rest();
    const auto timer = engine_->until_timer();
    const auto step = std::min(at - now_, timer.value_or(at - now_));
    now_ += step;
    engine_->pass(step);
  }
}

void virtual_engine::send(const bus::client_id& to, const bus::reply& what, bool text) {
  replied_ = true;
  if (what.last()) answering_.erase({to, what.id});
  sink_(to, bus::encode_reply(what, text));
}

}  // namespace ebb::tools

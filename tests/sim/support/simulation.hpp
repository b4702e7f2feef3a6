// tests/sim/support/simulation.hpp: one seeded run of all actors, on devices that fail, among neighbours that take and give memory.
//
// Everything is drawn from the seed: cards and their sizes, what clients ask, the order of the messages, how time passes, what the
// devices refuse. What must hold is checked after each message, and the rest once everything has come to rest.
#pragma once
#include "client_book.hpp"
#include "config/limits.hpp"
#include "neighbours.hpp"
#include <array>
#include <deque>
#include <set>
#include <sstream>

namespace ebb::sim {

using actors::test::cast;
using actors::test::cast_options;
using actors::test::failing_arena;
using actors::test::operation;
using namespace std::chrono_literals;

inline constexpr std::uint64_t kib = 1u << 10, mib = 1u << 20;
inline double to_mib(std::uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(mib); }

// What a run has seen; added up over many, so that a simulation that injects nothing shows.
struct tally {
  std::array<std::uint64_t, 7> refused{};  // operations of a device, by their kind
  std::uint64_t cards_lost = 0, writes_refused = 0, holders_killed = 0, clock_jumps = 0, neighbour_moves = 0, clients_left = 0;
  std::uint64_t leases = 0, grants_checked = 0, regrowths = 0, answers = 0, requests = 0, messages = 0, errors = 0;

  void add(const tally& of) {
    for (std::size_t kind = 0; kind < refused.size(); ++kind) refused[kind] += of.refused[kind];
    cards_lost += of.cards_lost, writes_refused += of.writes_refused, holders_killed += of.holders_killed, clock_jumps += of.clock_jumps;
    neighbour_moves += of.neighbour_moves, clients_left += of.clients_left, leases += of.leases, grants_checked += of.grants_checked;
    regrowths += of.regrowths, answers += of.answers, requests += of.requests, messages += of.messages, errors += of.errors;
  }
};

class simulation {
 public:
  explicit simulation(std::uint32_t seed, bool keeps_trace = false)
      : random_(seed * 2654435761u + 1), keeps_trace_(keeps_trace), n_cards_(1 + below(3)), devices_(n_cards_), neighbours_(devices_), disturbed_(n_cards_, false),
        together_(n_cards_), lent_of_mib_(n_cards_), regrew_(n_cards_, 0) {
    options_.model = &the_model();
    draw_cards();
    options_.shape_card = [this](actors::card_options& of) { shape(of); };
    actors_.emplace(options_);
    actors_->draw_jobs_from(static_cast<unsigned>(draw()));
    actors_->before_message = [this](caf::actor_id whose, const caf::type_erased_tuple& what) { note(whose, what); };
    actors_->after_message = [this] { check_all(); };
  }

  ~simulation() {
    actors_->before_message = nullptr;
    actors_->after_message = nullptr;  // nothing is thrown while they end
    for (shared_device& device : devices_) device.refuses = nullptr;
  }
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  void run() {
    load();
    arm_devices();
    const std::uint32_t n_moves = 40 + below(80);
    for (std::uint32_t i = 0; i < n_moves; ++i) move();
    come_to_rest();
    grow_back();
    counts.requests = book_.requests();
    counts.answers = book_.answers_compared();
  }

  tally counts;
  std::uint64_t trace_hash() const noexcept { return trace_hash_; }
  std::string trace() const {
    std::ostringstream all;
    for (const std::string& each : trace_) all << "  " << each << '\n';
    return all.str();
  }

 private:
  // --- drawing
  std::uint32_t draw() { return random_(); }
  std::uint32_t below(std::uint32_t end) { return random_() % end; }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

  void draw_cards() {
    const std::vector<std::vector<std::uint32_t>> splits[3] = {{{0}}, {{0, 1}, {0, 2}}, {{0, 1, 2}}};
    const auto& of = splits[n_cards_ - 1];
    options_.first_layers = of[below(static_cast<std::uint32_t>(of.size()))];
    for (std::uint32_t card = 0; card < n_cards_; ++card) {
      options_.reserves_mib.push_back(below(3));
      size_percent_.push_back(40 + below(90));
    }
    segment_bytes_ = (128u << below(4)) * kib;
    options_.places = 1 + below(4);
    options_.repeat_max = one_in(2) ? 0 : 1 + below(8);
    options_.windows_max = 1 + below(n_cards_);
    constexpr std::array ticks{0ms, 3ms, 7ms, 21ms};  // a step of a resize ends after 20
    options_.tick = ticks[below(ticks.size())];
    options_.load = false;
  }

  void shape(actors::card_options& of) {
    const std::uint32_t card = of.card.value;
    const auto& experts = the_model().weights->experts();
    const kernels::slot_layout slots(experts.expert_bytes_max(of.layer_begin, of.layer_end));
    const std::uint64_t cache = slots.bytes_of((of.layer_end - of.layer_begin) * the_model().weights->dims().n_experts);
    of.segment_bytes = segment_bytes_;
    of.card_bytes = std::max<std::uint64_t>(cache * size_percent_[card] / 100, mib) + of.reserve_mib * mib;
    devices_[card].size_bytes = of.card_bytes;
    of.make_arena = [device = &devices_[card]](const kernels::segment_layout& layout, std::uint64_t) -> result<std::unique_ptr<kernels::arena>> {
      return std::make_unique<failing_arena>(layout, device);
    };
  }

  // --- the devices' faults: now and then a kind of operation begins to fail, more or less often, and ends to.
  void arm_devices() {
    for (shared_device& device : devices_) {
      device.refuses = [this](operation kind) {
        const std::uint32_t chance = chance_[static_cast<std::size_t>(kind)];
        if (chance == 0 || below(100) >= chance) return false;
        ++counts.refused[static_cast<std::size_t>(kind)];
        return true;
      };
    }
  }
  void change_faults() {
    if (one_in(3)) return chance_.fill(0);
    constexpr std::array chances{5u, 30u, 100u};
    chance_[below(static_cast<std::uint32_t>(chance_.size()))] = chances[below(chances.size())];
  }

  // --- one move of the world
  void move() {
    switch (below(20)) {
      case 0: case 1: case 2: case 3: case 4: case 5: return send(drawn_request());
      case 6: case 7: case 8: case 9: case 10: case 11: return work(1 + below(40));
      case 12: return actors_->pass_amid_work(std::chrono::milliseconds(1 + below(50)));
      case 13: return rest_and_pass();
      case 14: return change_faults();
      case 15: case 16: return neighbours_move();
      case 17: return holders_move();
      case 18: return one_in(3) ? clients_leave() : repeat_request();
      default: return rare_move();
    }
  }

  void rare_move() {
    switch (below(6)) {
      case 0: actors_->disk_is_full = !actors_->disk_is_full; return;
      case 1:
        ++counts.clock_jumps;
        actors_->unix_ms = one_in(2) ? actors_->unix_ms + below(1u << 30) : actors_->unix_ms - std::min<std::uint64_t>(actors_->unix_ms, below(1u << 30));
        return;
      case 2: return lose_card();
      case 3: return flood();
      default: return kill_holder();
    }
  }

  void work(std::uint32_t messages) {
    for (std::uint32_t i = 0; i < messages && actors_->run_once(); ++i) {}
  }

  void rest_and_pass() {
    actors_->run();
    actors_->pass(std::chrono::milliseconds(100 + below(5000)));
  }

  void neighbours_move() {
    ++counts.neighbour_moves;
    const std::uint32_t card = below(n_cards_);
    const std::uint64_t bytes = below(static_cast<std::uint32_t>(devices_[card].size_bytes)) + 1;
    if (one_in(2)) return neighbours_.stranger_gives(card, bytes);
    neighbours_.stranger_takes(card, bytes);
    disturbed_[card] = true;
  }

  void holders_move() {
    const auto& leases = ledger().options->book.leases();
    if (leases.empty()) return;
    const auto& lease = leases[below(static_cast<std::uint32_t>(leases.size()))];
    if (one_in(4)) return neighbours_.holder_gives(lease.id);
    neighbours_.holder_takes(lease.id, lease.card.value, lease.mib * mib);
  }

  void kill_holder() {
    auto& processes = actors_->processes;
    if (processes.empty()) return;
    ++counts.holders_killed;
    const auto victim = std::next(processes.begin(), below(static_cast<std::uint32_t>(processes.size())));
    if (one_in(2)) processes.erase(victim);
    else victim->second += 1;  // another process with its number
  }

  // At most one a run, and seldom: little is left to see afterwards.
  void lose_card() {
    if (!one_in(3) || counts.cards_lost > 0) return;
    ++counts.cards_lost;
    actors_->end(actors_->cards[below(n_cards_)]);
  }

  void clients_leave() {
    ++counts.clients_left;
    const bus::client_id whose = drawn_client();
    book_.left(whose);
    std::erase_if(recent_, [&](const auto& each) { return each.first == whose; });  // with its name, but not its requests, others may come
    actors_->leave(whose);
  }

  void flood() {
    if (!one_in(8)) return;
    const bus::client_id whose = drawn_client();
    for (std::uint32_t i = 0; i < limits::in_flight_max + 10; ++i) send(whose, {fresh_id(), false, bus::status{}});
  }

  // --- requests
  bus::client_id drawn_client() { return {std::string(1, static_cast<char>('a' + below(4)))}; }
  bus::request_id fresh_id() {
    if (one_in(8)) return {"request " + std::to_string(++ids_)};
    return {++ids_};
  }

  void send(bus::client_id client, bus::request what) {
    book_.sent(client, what);
    if (recent_.size() > 8) recent_.pop_front();
    recent_.push_back({client, what});
    actors_->send(client, std::move(what));
  }
  void send(bus::command what) {
    const bool text = one_in(10) && std::holds_alternative<bus::vram>(what);
    send(drawn_client(), {text ? bus::request_id{} : fresh_id(), text, std::move(what)});
  }
  void repeat_request() {
    if (recent_.empty()) return;
    auto [client, what] = recent_[below(static_cast<std::uint32_t>(recent_.size()))];
    send(client, what);
  }

  bus::command drawn_request() {
    switch (below(16)) {
      case 0: case 1: case 2: case 3: case 4: return drawn_generate();
      case 5: return bus::cancel{bus::request_id{ids_ > 0 ? ids_ - below(static_cast<std::uint32_t>(std::min<std::uint64_t>(ids_, 6))) : 0}};
      case 6: case 7: return bus::vram{drawn_reserve(), drawn_device()};
      case 8: case 9: case 10: return drawn_acquire();
      case 11: case 12: return drawn_lease_command();
      case 13: return bus::plan{drawn_reserve(), drawn_device()};
      case 14: return bus::cards{};
      default: return bus::status{};
    }
  }

  std::optional<std::uint32_t> drawn_device() { return one_in(3) ? std::nullopt : std::optional(below(n_cards_ + (one_in(10) ? 1 : 0))); }
  std::optional<std::uint32_t> drawn_reserve() { return one_in(4) ? std::nullopt : std::optional(below(6)); }

  bus::command drawn_generate() {
    static const std::array<std::string, 4> prompts{"hello world", "he", "A longer prompt, of many bytes: hell below, who knows. hello hello", "w"};
    bus::generate asked;
    asked.prompt = prompts[below(prompts.size())];
    asked.max_tokens = 1 + below(12);
    asked.temperature = 0;
    asked.repeat_penalty = 1;
    asked.hash = true;
    asked.ignore_eos = true;
    asked.stream = !one_in(3);
    return asked;
  }

  bus::command drawn_acquire() {
    bus::lease asked;
    asked.action = "acquire";
    asked.owner = "painter";
    asked.device = below(n_cards_);
    asked.mib = 1 + below(4);
    if (one_in(3)) asked.min_mib = 1 + below(*asked.mib);
    asked.ttl_s = 1 + below(60);
    if (one_in(3)) asked.wait_s = below(30);
    if (one_in(3)) {
      asked.pid = 1 + below(6);
      if (!one_in(8)) actors_->processes.emplace(*asked.pid, draw());
    }
    return asked;
  }

  bus::command drawn_lease_command() {
    bus::lease asked;
    asked.action = "list";
    if (one_in(4)) return asked;
    const auto& leases = ledger().options->book.leases();
    asked.lease_id = leases.empty() || one_in(6) ? 1 + below(20) : leases[below(static_cast<std::uint32_t>(leases.size()))].id;
    asked.action = one_in(3) ? "renew" : "release";
    if (asked.action == "renew") asked.ttl_s = 1 + below(60);
    return asked;
  }

  // --- the end
  void load() {
    for (const actors::card_actor& each : actors_->cards) hold(actors_->ask<bus::card_info>(each, actors::load_atom::value).has_value(), "a card could not be loaded");
  }

  void come_to_rest() {
    for (shared_device& device : devices_) device.refuses = nullptr;
    actors_->disk_is_full = false;
    actors_->run();
    for (int s = 0; s < 95; ++s) {  // the longest wait, and then the longest lease
      const actors::time_point began = actors_->now();  // looks at the clock move it too, while no timer fires
      actors_->pass(1s);
      for (const auto& lease : ledger().options->book.leases()) hold(lease.ends > began, "a lease that was over a second ago is still held");
    }
    hold(ledger().options->book.leases().empty(), "a lease is held that nobody asked to be so long");
    neighbours_.everybody_gives();
    for (int s = 0; s < 3; ++s) actors_->pass(1s);
    book_.check_all_answered();
    for (std::uint32_t card = 0; card < n_cards_; ++card) {
      if (device_of(card)) hold(!ledger().regrowths[card], "card " + std::to_string(card) + " still tries to grow back, with all its memory free");
    }
  }

  // In a world at peace a command gives each cache all that its reserve leaves, and a lease only borrows.
  void grow_back() {
    for (std::uint32_t card = 0; card < n_cards_; ++card) {
      if (!device_of(card)) continue;
      const std::uint32_t reserve = ledger().options->book.reserve_mib({card});
      const auto report = actors_->ask<bus::vram_report>(actors_->ledger, actors::vram_atom::value, bus::vram{reserve, card});
      hold(report.has_value(), "a command fails though nothing is wrong any more");
      const auto& memory = device_of(card)->memory();
      const auto& layout = memory.arena().layout();
      const std::uint64_t size = devices_[card].size_bytes, kept_free = reserve * mib;
      const std::uint64_t allowed = layout.round_down(size > kept_free ? size - kept_free : 0);
      hold(memory.arena().mapped_bytes() == allowed, "a cache is not as large as its reserve allows");
      hold(memory.cache().resident_count() == std::min(memory.slots().slots_in(allowed), memory.cache().experts().count()), "a slot is empty though an expert is out: " + std::to_string(memory.cache().resident_count()) + " of " +
               std::to_string(memory.cache().slots_usable()) + " usable, " + std::to_string(memory.slots().slots_in(allowed)) + " allowed");
      hold(reads_the_weights(memory), "a slot holds other bytes than the model's");
    }
  }

  static bool reads_the_weights(const actors::card_memory& memory) {
    const auto& experts = memory.cache().experts();
    for (std::uint32_t number = 0; number < experts.count(); ++number) {
      const auto original = the_model().weights->experts().at(experts.at(number), model::matrix::down);
      const std::byte* read = memory.table().at(experts.at(number)).matrix[2];
      if (read != original.data && std::memcmp(read, original.data, original.size_bytes) != 0) return false;
    }
    return true;
  }

  // --- what must hold after each message
  void check_all() {
    ++counts.messages;
    for (std::uint32_t card = 0; card < n_cards_; ++card) {
      const actors::card* device = device_of(card);
      if (!device) continue;
      hold(device->memory().consistent(), "the table, the cache and the mapped memory disagree on card " + std::to_string(card));
      hold(!device->fast_path() || device->memory().resident(), "the fast path is used though experts are out");
      if (!ledger().options) continue;  // it has not run yet
      check_promises(card, *device);
      check_regrowth(card, *device);
    }
    for (; events_seen_ < actors_->events.size(); ++events_seen_) check_event(actors_->events[events_seen_]);
    for (; replies_seen_ < actors_->replies.size(); ++replies_seen_) check_reply(actors_->replies[replies_seen_]);
  }

  std::uint64_t lent_mib(std::uint32_t card) {
    std::uint64_t sum = 0;
    for (const auto& lease : ledger().options->book.leases()) sum += lease.card.value == card ? lease.mib : 0;
    return sum;
  }

  // What is lent and what is mapped fit into what there was when the first lease was given, and the reserve with it between two
  // operations; unless the answer said that it is short.
  void check_promises(std::uint32_t card, const actors::card& device) {
    const actors::ledger& book = ledger().options->book;
    // A card whose device fell silent in the middle of a command, which was answered with that error, is brought back once it speaks.
    const bool idle = ledger().operations.empty() && !ledger().regrowths[card];
    if (idle && !book.lends({card})) disturbed_[card] = false;
    const std::uint64_t lent = lent_mib(card);
    if (lent == 0) return;
    together_[card] = *book.state(actors_->now(), 0).cards[card].together_mib;
    lent_of_mib_[card] = std::max(lent_of_mib_[card], together_[card]);
    const std::uint32_t reserve = idle ? book.reserve_mib({card}) : 0;
    const double mapped = to_mib(device.memory().arena().mapped_bytes());
    if (mapped + static_cast<double>(lent + reserve) <= together_[card] + 1e-6) return;
    if (mapped == 0 || device.info().report.short_mib > 0) return;  // nothing more can be given
    throw finding("card " + std::to_string(card) + " maps " + std::to_string(mapped) + " MiB beside " + std::to_string(lent) + " lent and a reserve of " + std::to_string(reserve) +
                  ", and has " + std::to_string(together_[card]));
  }

  // Once the ledger is content after leases, all that was there when the first was given has come back, but for the reserve of now.
  void check_regrowth(std::uint32_t card, const actors::card& device) {
    const std::uint8_t regrows = ledger().regrowths[card].has_value();
    if (std::exchange(regrew_[card], regrows) == 0 || regrows) return;
    const auto& arena = device.memory().arena();
    const double left = std::max(0.0, std::exchange(lent_of_mib_[card], 0) - ledger().options->book.reserve_mib({card}));
    const std::uint64_t allowed = arena.layout().round_down(static_cast<std::uint64_t>(left * static_cast<double>(mib)));
    hold(arena.mapped_bytes() >= allowed, "card " + std::to_string(card) + " has not grown back: " + std::to_string(to_mib(arena.mapped_bytes())) + " MiB of " +
                                              std::to_string(to_mib(allowed)));
    ++counts.regrowths;
  }

  void check_event(const bus::event_body& what) {
    const auto* granted = std::get_if<bus::lease_granted>(&what);
    if (const auto* ended = std::get_if<bus::lease_ended>(&what)) lease_over(ended->lease);
    if (!granted) return;
    ++counts.leases;
    const std::uint32_t card = granted->lease.device;
    if (disturbed_[card] || !device_of(card)) return;
    std::uint64_t unused = ledger().options->book.reserve_mib({card}) * mib;
    for (const auto& lease : ledger().options->book.leases()) unused += lease.card.value == card ? lease.mib * mib - neighbours_.taken_by(lease.id) : 0;
    hold(devices_[card].free_bytes() >= unused, "card " + std::to_string(card) + " has promised the same memory twice: " + std::to_string(to_mib(devices_[card].free_bytes())) +
                                                    " MiB free of " + std::to_string(to_mib(unused)));
    ++counts.grants_checked;
  }

  // A holder need not let go at once; then it is a stranger.
  void lease_over(const bus::lease_info& lease) {
    if (neighbours_.taken_by(lease.lease_id) > 0 && one_in(2)) disturbed_[lease.device] = true;
    else neighbours_.holder_gives(lease.lease_id);
  }

  void check_reply(const said& reply) {
    if (const auto* why = std::get_if<error>(&reply.what.body)) {
      ++counts.errors;
      if (why->code == errc::file_unwritable) ++counts.writes_refused;
      hold(why->code != errc::internal, "an internal error: " + why->text);
      hold(why->code != errc::timed_out, "a part did not answer in time: " + why->text);
      hold(!why->text.empty(), "an error without a text");
    }
    if (const auto* report = std::get_if<bus::vram_report>(&reply.what.body)) {
      for (const bus::card_report& card : report->cards)
        hold(card.short_mib > 0 || card.vram_free_mib >= card.reserve_mib, "a command was answered before its memory was free");
    }
    const auto* of = book_.came(reply);
    const auto* report = std::get_if<bus::lease_report>(&reply.what.body);
    if (!of || !report || report->cards.empty()) return;
    hold(report->cards[0].vram_free_mib >= report->cards[0].reserve_mib + report->leases[0].mib, "a lease was answered before its memory was free");
  }

  // --- looking in
  actors::ledger_state& ledger() { return cast::state_of<actors::ledger_state>(actors_->ledger); }
  // None if the card has ended.
  const actors::card* device_of(std::uint32_t card) {
    return devices_[card].caches > 0 ? cast::state_of<actors::card_state>(actors_->cards[card]).device.get() : nullptr;
  }

  void note(caf::actor_id whose, const caf::type_erased_tuple& what) {
    const auto atom = what.size() > 0 && what.match_element<caf::atom_value>(0) ? static_cast<std::uint64_t>(what.get_as<caf::atom_value>(0)) : 0;
    for (const std::uint64_t part : {static_cast<std::uint64_t>(whose), atom, static_cast<std::uint64_t>(what.size())}) trace_hash_ = (trace_hash_ ^ part) * 0x100000001b3u;
    if (!keeps_trace_) return;
    if (trace_.size() == 60) trace_.pop_front();
    trace_.push_back(std::to_string(counts.messages) + ": actor " + std::to_string(whose) + " takes " + (atom ? caf::to_string(static_cast<caf::atom_value>(atom)) : what.stringify()));
  }

  std::mt19937 random_;
  bool keeps_trace_;
  std::uint32_t n_cards_;
  std::vector<shared_device> devices_;  // [cards]
  neighbours neighbours_;
  std::vector<bool> disturbed_;         // [cards]: somebody took memory that he was not lent since it was counted
  std::vector<double> together_;        // [cards], as the ledger last knew it
  std::vector<double> lent_of_mib_;     // [cards], the most that it was since the cache had last grown back
  std::vector<std::uint8_t> regrew_;    // [cards], at the last message
  std::vector<std::uint32_t> size_percent_;
  std::uint64_t segment_bytes_ = 0;
  std::array<std::uint32_t, 7> chance_{};  // of a refusal, in percent
  cast_options options_;
  client_book book_;
  std::deque<std::pair<bus::client_id, bus::request>> recent_;
  std::uint64_t ids_ = 0;
  std::size_t events_seen_ = 0, replies_seen_ = 0;
  std::uint64_t trace_hash_ = 0xcbf29ce484222325u;
  std::deque<std::string> trace_;
  std::optional<cast> actors_;  // ends before what it uses
};

}  // namespace ebb::sim

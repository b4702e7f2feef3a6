#include "tools/verification.hpp"
#include "config/limits.hpp"
#include "tools/cache_size.hpp"
#include "tools/exchange.hpp"
#include <algorithm>
#include <cmath>
#include <random>

namespace ebb::tools {
namespace {

constexpr std::chrono::minutes reply_timeout{10};

std::string on_cards(std::size_t n_cards) { return n_cards == 1 ? "on 1 card" : "on " + std::to_string(n_cards) + " cards"; }

// One engine, and the conversation run on it under changing conditions.
class trial {
 public:
  // `n_cards`: 0 leaves the cards as the settings have them.
  static result<trial> start(const verification_options& options, kernels::cpu::isa isa, std::uint32_t n_cards = 0) {
    engine_options engine = options.engine;
    engine.forced_isa = std::string(to_string(isa));
    if (n_cards > 0) {
      engine.from.cards.assign(n_cards, card_choice{});
      engine.from.layers.clear();
      engine.from.vram_reserve_mib.clear();
    }
    auto local = local_connection::start(engine);
    if (!local) return fail(local.error());
    return trial(options, std::move(*local), engine.forced_isa);
  }

  result<verification_row> undisturbed(const std::string& condition) { return answer(condition, 1, 0); }
  std::size_t n_cards() const noexcept { return local_->engine().cards().size(); }
  std::uint32_t n_layers() const noexcept { return local_->engine().weights().dims().n_layers; }

  // With a share of each card's full cache left, in [0, 1].
  result<verification_row> at_size(double share) {
    for (std::uint32_t card = 0; card < n_cards(); ++card) {
      const auto now = report_of(card);
      if (!now) return fail(now.error());
      const double lent_mib = std::ceil(now->expert_cache_full_mib * (1 - share));
      auto set = exchange_.ask(bus::vram{reserve_for(*now, now->expert_cache_full_mib - lent_mib), card}, limits::resize_timeout);
      if (!set) return fail(set.error());
    }
    const std::string name = share == 0 ? "cache at its floor" : "cache at " + std::to_string(std::lround(share * 100)) + " %";
    return answer(name, 1, 0);
  }

  // Beside three others that read other prompts.
  result<verification_row> batched() { return answer("in a batch of 4", 4, 0); }

  // While the reserve of random cards changes, again and again until so many changes were made.
  result<verification_row> resized(std::uint32_t n_resizes) {
    verification_row all = named("under " + std::to_string(n_resizes) + " random vram commands");
    while (all.resizes < n_resizes || all.tokens == 0) {
      auto once = answer(all.condition, 1, n_resizes - static_cast<std::uint32_t>(all.resizes));
      if (!once) return once;
      if (all.hash.empty()) all.hash = once->hash;
      if (once->hash != all.hash) return once;
      all.tokens += once->tokens;
      all.tokens_per_s = once->tokens_per_s;
      all.hit_rate = once->hit_rate;
      all.gap_ms_max = std::max(all.gap_ms_max, once->gap_ms_max);
      all.resize_ms_max = std::max(all.resize_ms_max, once->resize_ms_max);
      all.resizes += once->resizes;
    }
    return all;
  }

 private:
  trial(const verification_options& options, std::unique_ptr<local_connection> local, std::string isa)
      : options_(options), local_(std::move(local)), exchange_(*local_), isa_(std::move(isa)), random_(options.seed) {}

  // As the card is now.
  result<bus::card_report> report_of(std::uint32_t card) {
    auto cards = exchange_.ask(bus::cards{}, limits::status_timeout);
    if (!cards) return fail(cards.error());
    return std::get<bus::cards_report>(cards->body).cards.at(card).report;
  }

  verification_row named(std::string condition) const {
    verification_row row;
    row.condition = std::move(condition);
    row.isa = isa_;
    return row;
  }

  bus::generate conversation() const {
    bus::generate asked;
    asked.prompt = options_.prompt;
    asked.max_tokens = options_.n_tokens;
    asked.temperature = 0.0f;
    asked.hash = true;
    asked.stream = false;
    asked.ignore_eos = true;
    return asked;
  }

  // Of a bystander: the same length, another text.
  bus::generate other_conversation(std::uint32_t number) const {
    bus::generate other = conversation();
    other.prompt = std::string(number, ' ') + options_.prompt + " " + std::to_string(number);
    return other;
  }

  // Gives how long it took.
  result<double> random_resize() {
    const auto card = static_cast<std::uint32_t>(random_() % n_cards());
    const auto now = report_of(card);
    if (!now) return fail(now.error());
    const auto span = static_cast<std::uint64_t>(std::ceil(now->expert_cache_full_mib)) + 2;  // beyond the floor too
    const double cache_mib = now->expert_cache_full_mib - static_cast<double>(random_() % span);
    auto set = exchange_.ask(bus::vram{reserve_for(*now, cache_mib), card}, limits::resize_timeout);
    if (!set) return fail(set.error());
    return std::get<bus::vram_report>(set->body).cards.front().took_ms;
  }

  // The conversation once, beside batch - 1 others and under up to resizes_max commands, one after the other.
  result<verification_row> answer(const std::string& condition, std::uint32_t batch, std::uint32_t resizes_max) {
    verification_row row = named(condition);
    std::vector<bus::request_id> others;
    for (std::uint32_t other = 1; other < batch; ++other) {
      auto begun = exchange_.begin(other_conversation(other));
      if (!begun) return fail(begun.error());
      others.push_back(*std::move(begun));
    }
    const auto id = exchange_.begin(conversation());
    if (!id) return fail(id.error());
    while (!exchange_.answered(*id) && row.resizes < resizes_max) {
      const auto took_ms = random_resize();
      if (!took_ms) return fail(took_ms.error());
      ++row.resizes;
      row.resize_ms_max = std::max(row.resize_ms_max, *took_ms);
    }
    const auto answered = exchange_.finish(*id, reply_timeout);
    if (!answered) return fail(answered.error());
    for (const bus::request_id& other : others) {
      if (auto ended = exchange_.finish(other, reply_timeout); !ended) return fail(ended.error());
    }
    const auto& summary = std::get<bus::done>(answered->body);
    row.hash = summary.hash;
    row.tokens = summary.generated_tokens;
    row.tokens_per_s = summary.tokens_per_s;
    row.hit_rate = summary.hit_rate;
    row.gap_ms_max = summary.gap_ms_max;
    return row;
  }

  const verification_options& options_;
  std::unique_ptr<local_connection> local_;
  exchange exchange_;  // over it
  std::string isa_;
  std::mt19937_64 random_;
};

}  // namespace

result<bool> verify_promise(const verification_options& options, const std::function<void(const verification_row&)>& row) {
  std::string expected;
  bool all_same = true;
  const auto take = [&](result<verification_row> outcome) -> result<void> {
    if (!outcome) return fail(outcome.error());
    if (expected.empty()) expected = outcome->hash;
    outcome->same = outcome->hash == expected;
    all_same = all_same && outcome->same;
    row(*outcome);
    return {};
  };
  auto isas = kernels::cpu::available();
  const kernels::cpu::isa fastest = isas.back();
  isas.pop_back();
  std::size_t n_cards = 0;
  std::uint32_t n_layers = 0;
  {
    auto one = trial::start(options, fastest);
    if (!one) return fail(one.error());
    n_cards = one->n_cards();
    n_layers = one->n_layers();
    if (auto ran = take(one->undisturbed(on_cards(n_cards) + ", undisturbed")); !ran) return fail(ran.error());
    if (auto ran = take(one->batched()); !ran) return fail(ran.error());
    if (auto ran = take(one->resized(options.n_resizes)); !ran) return fail(ran.error());
    for (const double share : {1.0, 0.5, 0.25, 0.0}) {
      if (auto ran = take(one->at_size(share)); !ran) return fail(ran.error());
    }
  }
  for (const std::uint32_t other : {1u, 2u, 3u}) {
    if (other == n_cards || other > n_layers) continue;
    auto one = trial::start(options, fastest, other);
    if (!one) return fail(one.error());
    if (auto ran = take(one->undisturbed(on_cards(other))); !ran) return fail(ran.error());
  }
  for (const kernels::cpu::isa isa : isas) {
    auto one = trial::start(options, isa);
    if (!one) return fail(one.error());
    if (auto ran = take(one->undisturbed(on_cards(n_cards))); !ran) return fail(ran.error());
  }
  return all_same;
}

}  // namespace ebb::tools

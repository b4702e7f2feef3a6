#include "tools/verification.hpp"
#include "config/limits.hpp"
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
    trial made(options, std::move(*local), engine.forced_isa);
    if (auto read = made.read_cards(); !read) return fail(read.error());
    return made;
  }

  result<verification_row> undisturbed(const std::string& condition) { return answer(condition, 1, 0); }
  std::size_t n_cards() const noexcept { return full_mib_.size(); }
  std::uint32_t n_layers() const noexcept { return local_->engine().weights().dims().n_layers; }

  // With a share of each card's full cache left, in [0, 1].
  result<verification_row> at_size(double share) {
    for (std::uint32_t card = 0; card < full_mib_.size(); ++card) {
      const auto lent = static_cast<std::uint32_t>(std::ceil(full_mib_[card] * (1 - share)));
      auto set = ask(*local_, bus::vram{start_mib_[card] + lent, card}, limits::resize_timeout);
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
      : options_(options), local_(std::move(local)), isa_(std::move(isa)), random_(options.seed) {}

  result<void> read_cards() {
    auto cards = ask(*local_, bus::cards{}, limits::status_timeout);
    if (!cards) return fail(cards.error());
    for (const bus::card_info& card : std::get<bus::cards_report>(cards->body).cards) {
      full_mib_.push_back(card.report.expert_cache_full_mib);
      start_mib_.push_back(card.report.reserve_mib);
    }
    return {};
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

  result<void> send(const bus::request_id& id, bus::command command) { return local_->send({id, false, std::move(command)}); }

  // What begins a bystander: the same length, another text.
  result<void> send_bystander(std::uint32_t number) {
    bus::generate other = conversation();
    other.prompt = std::string(number, ' ') + options_.prompt + " " + std::to_string(number);
    return send(fresh_id(), std::move(other));
  }

  result<void> send_random_resize() {
    const auto card = static_cast<std::uint32_t>(random_() % full_mib_.size());
    const auto span = static_cast<std::uint64_t>(std::ceil(full_mib_[card])) + 2;  // beyond the floor too
    return send(fresh_id(), bus::vram{start_mib_[card] + static_cast<std::uint32_t>(random_() % span), card});
  }

  // The conversation once, beside batch - 1 others and under up to resizes_max commands, one after the other.
  result<verification_row> answer(const std::string& condition, std::uint32_t batch, std::uint32_t resizes_max) {
    verification_row row = named(condition);
    const bus::request_id id = fresh_id();
    for (std::uint32_t other = 1; other < batch; ++other) {
      if (auto sent = send_bystander(other); !sent) return fail(sent.error());
    }
    if (auto sent = send(id, conversation()); !sent) return fail(sent.error());
    std::uint32_t open = batch;
    bool resizing = false;
    for (bool answered = false; open > 0 || resizing;) {
      if (!resizing && !answered && row.resizes < resizes_max) {
        if (auto sent = send_random_resize(); !sent) return fail(sent.error());
        resizing = true;
      }
      auto reply = local_->receive(reply_timeout);
      if (!reply) return fail(reply.error());
      if (const auto* why = std::get_if<error>(&reply->body)) return fail(*why);
      if (const auto* report = std::get_if<bus::vram_report>(&reply->body)) {
        resizing = false;
        ++row.resizes;
        for (const auto& card : report->cards) row.resize_ms_max = std::max(row.resize_ms_max, card.took_ms);
      }
      if (const auto* summary = std::get_if<bus::done>(&reply->body)) {
        --open;
        if (reply->id != id) continue;
        answered = true;
        row.hash = summary->hash;
        row.tokens = summary->generated_tokens;
        row.tokens_per_s = summary->tokens_per_s;
        row.hit_rate = summary->hit_rate;
        row.gap_ms_max = summary->gap_ms_max;
      }
    }
    return row;
  }

  const verification_options& options_;
  std::unique_ptr<local_connection> local_;
  std::string isa_;
  std::mt19937_64 random_;
  std::vector<double> full_mib_;         // [cards]
  std::vector<std::uint32_t> start_mib_; // [cards]
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

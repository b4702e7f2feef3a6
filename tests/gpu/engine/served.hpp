// tests/gpu/engine/served.hpp: an engine on the cards that a test names, and what tests ask of it. What cannot be asked ends the test with
// why.
#pragma once
#include "tests/gpu/rehearsal.hpp"
#include "tests/tools/support/demo.hpp"
#include "tests/where.hpp"
#include "tools/cache_size.hpp"
#include "tools/exchange.hpp"
#include <cmath>

namespace ebb::tools::test {

inline constexpr std::uint64_t mib = 1u << 20;
inline constexpr double segment_mib = 2;  // the smallest of a GPU, so that the demo model's cache has a dozen of them

inline constexpr card_choice host_card{};
inline card_choice gpu_card(std::uint32_t number = 0) {
  return ebb::test::rehearses_on_host() ? host_card : card_choice{card_kind::cuda, number};
}

inline std::string demo_model() { return ebb::test::where("EBB_DEMO_MODEL_PATH", EBB_DEMO_MODEL); }

inline settings settings_on(std::vector<card_choice> cards, std::string model = demo_model()) {
  settings from;
  from.model = std::move(model);
  from.cards = std::move(cards);
  from.context = 1024;
  from.vram_segment_bytes = static_cast<std::uint64_t>(segment_mib) * mib;
  return from;
}

class served {
 public:
  explicit served(settings from) : local_(started(std::move(from))), exchange_(*local_) {}

  exchange& talk() noexcept { return exchange_; }
  const tools::engine& engine() const noexcept { return local_->engine(); }
  std::uint32_t n_cards() const noexcept { return static_cast<std::uint32_t>(engine().cards().size()); }

  // The last reply, when it must be of this type.
  template <class Body>
  Body answer(bus::command command) {
    auto reply = exchange_.ask(std::move(command), patience);
    if (!reply) throw std::runtime_error(reply.error().text);
    return std::get<Body>(std::move(reply->body));
  }

  std::vector<bus::card_info> cards() { return answer<bus::cards_report>(bus::cards{}).cards; }
  bus::card_info card(std::uint32_t device) { return cards().at(device); }

  bus::card_report vram(std::optional<std::uint32_t> reserve_mib, std::uint32_t device) {
    return answer<bus::vram_report>(bus::vram{reserve_mib, device}).cards.at(0);
  }
  // The same in two halves, so that several are under way at a time.
  bus::request_id begin_vram(std::optional<std::uint32_t> reserve_mib, std::uint32_t device) {
    auto begun = exchange_.begin(bus::vram{reserve_mib, device});
    if (!begun) throw std::runtime_error(begun.error().text);
    return *begun;
  }
  bus::card_report vram_finished(const bus::request_id& id) { return finished<bus::vram_report>(id).cards.at(0); }
  // Lends what of a card's cache is beyond so much, or gives so much of it back.
  bus::card_report bring_to(std::uint32_t device, double cache_mib) { return vram(reserve_for(card(device).report, cache_mib), device); }
  bus::card_report take_back(std::uint32_t device) { return vram({}, device); }
  void take_all_back() {
    for (std::uint32_t device = 0; device < n_cards(); ++device) take_back(device);
  }

  template <class Body = bus::done>
  Body finished(const bus::request_id& id) {
    auto reply = exchange_.finish(id, patience);
    if (!reply) throw std::runtime_error(reply.error().text);
    return std::get<Body>(std::move(reply->body));
  }

  // --- leases
  bus::lease_report lend(std::uint32_t device, std::uint32_t lent_mib, std::optional<std::uint32_t> pid = {}) {
    return answer<bus::lease_report>(acquire(device, lent_mib, pid));
  }
  void release(std::uint64_t id) {
    bus::lease asked;
    asked.action = "release";
    asked.lease_id = id;
    answer<bus::lease_report>(asked);
  }
  std::size_t n_leases() {
    bus::lease asked;
    asked.action = "list";
    return answer<bus::lease_report>(asked).leases.size();
  }
  static bus::lease acquire(std::uint32_t device, std::uint32_t lent_mib, std::optional<std::uint32_t> pid = {}) {
    bus::lease asked;
    asked.action = "acquire";
    asked.owner = "neighbour";
    asked.device = device;
    asked.mib = lent_mib;
    asked.pid = pid;
    return asked;
  }

 private:
  static std::unique_ptr<local_connection> started(settings from) {
    engine_options options;
    options.from = std::move(from);
    auto local = local_connection::start(options);
    if (!local) throw std::runtime_error(local.error().text);
    return std::move(*local);
  }

  std::unique_ptr<local_connection> local_;
  exchange exchange_;
};

// The hash of an answer on one host card, which every placement must give.
inline std::string hash_on_host(const bus::generate& asked, const std::string& model = demo_model()) {
  return served(settings_on({host_card}, model)).answer<bus::done>(asked).hash;
}

}  // namespace ebb::tools::test

// Placement never changes an answer, on GPUs too: of every cache size, while memory comes and goes, and however the model is spread over
// cards.
#include "tests/gpu/engine/steady_talk.hpp"
#include <random>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

namespace {

constexpr std::uint32_t n_tokens = 120;

struct arrangement {
  std::string name;
  std::vector<card_choice> cards;
  std::vector<std::uint32_t> layers = {};

  settings from() const {
    settings all = settings_on(cards);
    all.layers = layers;
    return all;
  }
};

std::vector<arrangement> on_one_gpu() {
  return {{"one card on a GPU", {gpu_card()}},
          {"two cards on one GPU", {gpu_card(), gpu_card()}},
          {"a GPU, then a host card", {gpu_card(), host_card}},
          {"a host card, then a GPU", {host_card, gpu_card()}}};
}

std::vector<arrangement> on_two_gpus() {
  return {{"two GPUs, layers by what is free", {gpu_card(0), gpu_card(1)}},
          {"two GPUs, one layer on the first", {gpu_card(0), gpu_card(1)}, {0, 1}}};
}

void check_every_size(const arrangement& on, const std::string& expected) {
  INFO(on.name);
  served with(on.from());
  double largest_mib = 0;
  for (const bus::card_info& card : with.cards()) largest_mib = std::max(largest_mib, card.report.expert_cache_full_mib);
  const auto steps = static_cast<std::uint32_t>(std::ceil(largest_mib / segment_mib));
  REQUIRE(steps >= 3);
  for (std::uint32_t step = 0; step <= steps; ++step) {
    for (std::uint32_t device = 0; device < with.n_cards(); ++device) {
      const double wanted_mib = with.card(device).report.expert_cache_full_mib * step / steps;
      const auto report = step == steps ? with.take_back(device) : with.bring_to(device, wanted_mib);
      INFO("card " << device << " brought to " << wanted_mib << " MiB, now " << report.expert_cache_mib);
      if (step == 0) CHECK(report.expert_cache_mib == 0);
      if (step < steps) CHECK(report.expert_cache_mib <= wanted_mib);
      if (step == steps) CHECK(report.expert_slots == report.expert_slots_full);
    }
    INFO("step " << step << " of " << steps);
    const auto done = with.answer<bus::done>(greedy(n_tokens));
    CHECK(done.hash == expected);
    if (step == 0) CHECK(done.hit_rate == 0);
    if (step == steps) CHECK(done.hit_rate == 1);
  }
}

// Reserves, leases and their ends, at random, on random cards; what the engine refuses for want of room is refused and nothing else.
class disturber {
 public:
  disturber(served& with, unsigned seed) : with_(with), random_(seed) {}

  void disturb() {
    const auto device = static_cast<std::uint32_t>(below(with_.n_cards()));
    if (!held_.empty() && (held_.size() >= 3 || below(3) == 0)) return end_a_lease();
    const bus::card_report now = with_.card(device).report;
    const double span_mib = now.expert_cache_full_mib + 4;  // beyond the floor too
    const double cache_mib = static_cast<double>(below(static_cast<std::uint64_t>(span_mib))) - 2;
    switch (below(4)) {
      case 0: with_.take_back(device); break;
      case 1: with_.vram(reserve_for(now, cache_mib), device); break;
      default: lend(now, cache_mib); break;
    }
    ++n_vram_and_leases;
  }

  void end_all_leases() {
    while (!held_.empty()) end_a_lease();
  }

  std::uint32_t n_vram_and_leases = 0;
  std::uint32_t n_leases = 0;  // given

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  void lend(const bus::card_report& now, double cache_mib) {
    const double beside_mib = now.vram_free_mib + now.expert_cache_mib - now.reserve_mib - cache_mib;
    auto reply = with_.talk().ask(served::acquire(now.device, static_cast<std::uint32_t>(std::max(1.0, std::floor(beside_mib)))), patience);
    if (!reply) {
      INFO(reply.error().text);
      CHECK(reply.error().code == errc::short_of);
      return;
    }
    held_.push_back(std::get<bus::lease_report>(reply->body).leases.at(0).lease_id);
    ++n_leases;
  }

  void end_a_lease() {
    const auto at = held_.begin() + static_cast<std::ptrdiff_t>(below(held_.size()));
    with_.release(*at);
    held_.erase(at);
  }

  served& with_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> held_;
};

void check_disturbed(const arrangement& on, const std::string& expected) {
  INFO(on.name);
  served with(on.from());
  steady_talk talk(with, greedy(n_tokens), expected);
  disturber other(with, 7);
  while (other.n_vram_and_leases < 120) {
    other.disturb();
    talk.go_on();
  }
  CHECK(talk.finish());
  CHECK(other.n_leases > 0);
  other.end_all_leases();
  with.take_all_back();
  CHECK(with.answer<bus::done>(greedy(n_tokens)).hash == expected);
  CHECK(comes_true([&] {
    const auto cards = with.cards();
    return std::all_of(cards.begin(), cards.end(), [](const bus::card_info& card) { return card.resident; });
  }));
}

void check_flipped(const arrangement& on, const std::string& expected) {
  INFO(on.name);
  served with(on.from());
  steady_talk talk(with, greedy(n_tokens), expected);
  for (std::uint32_t flip = 0; flip < 150; ++flip) {
    const std::uint32_t device = flip % with.n_cards();
    const bus::card_report before = with.card(device).report;
    const auto less = with.bring_to(device, before.expert_cache_mib - segment_mib);
    CHECK(less.expert_slots < less.expert_slots_full);
    talk.go_on();
    const auto all = with.take_back(device);
    CHECK(all.expert_slots == all.expert_slots_full);
    talk.go_on();
  }
  CHECK(talk.finish());
  CHECK(talk.n_answers() > 0);
}

}  // namespace

TEST_CASE("on GPU cards an answer has the host card's hash at every size of their caches, from none to all", "[gpu][engine]") {
  const std::string expected = hash_on_host(greedy(n_tokens));
  for (const arrangement& on : on_one_gpu()) check_every_size(on, expected);
}

TEST_CASE("reserves and leases that come and go at random in the middle of an answer leave its hash as it is", "[gpu][engine]") {
  const std::string expected = hash_on_host(greedy(n_tokens));
  for (const arrangement& on : on_one_gpu()) check_disturbed(on, expected);
}

TEST_CASE("a segment that is lent and taken back again and again, so that windows change their path, leaves the hash as it is",
          "[gpu][engine]") {
  const std::string expected = hash_on_host(greedy(n_tokens));
  for (const arrangement& on : on_one_gpu()) check_flipped(on, expected);
}

TEST_CASE("four answers at the same time have the hashes that they have alone, while the cache comes and goes", "[gpu][engine]") {
  std::vector<bus::generate> asked;
  std::vector<std::string> expected;
  served on_host(settings_on({host_card}));
  for (std::uint32_t number = 0; number < 4; ++number) {
    asked.push_back(greedy(n_tokens));
    asked.back().prompt += std::string(number, '.') + " there were " + std::to_string(number);
    expected.push_back(on_host.answer<bus::done>(asked.back()).hash);
  }
  served with(settings_on({gpu_card()}));
  disturber other(with, 11);
  std::vector<bus::request_id> open;
  for (const bus::generate& each : asked) {
    auto begun = with.talk().begin(each);
    REQUIRE(begun);
    open.push_back(*begun);
  }
  while (!with.talk().answered(open.back())) other.disturb();
  for (std::size_t number = 0; number < open.size(); ++number) CHECK(with.finished(open[number]).hash == expected[number]);
}

TEST_CASE("over two GPUs an answer has the host card's hash, whoever chose the layers and whatever is lent", "[gpu][engine][.two_gpus]") {
  const std::string expected = hash_on_host(greedy(n_tokens));
  for (const arrangement& on : on_two_gpus()) {
    check_every_size(on, expected);
    check_disturbed(on, expected);
    check_flipped(on, expected);
  }
}

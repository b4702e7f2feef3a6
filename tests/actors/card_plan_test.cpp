// What a card foresees of a reserve, against what then happens: the demo model in the middle of a drawn answer.
#include "support/demo.hpp"

namespace ebb::actors {
namespace {

resize_goal reserve_of(std::uint32_t mib) { return {.reserve_mib = mib, .extra_mib = 0, .extra_min_mib = 0, .ceiling_mib = {}}; }

// A card whose windows take 1 ms and 50 us a miss, by its own counts: only the arithmetic is looked at, not this machine.
class answering_card {
 public:
  answering_card() {
    card_options options = test::whole_card();
    options.context = 2048;
    device_ = test::make_card(options, [this] { return time(); });
    REQUIRE(device_->begin_fill());
    finish();
    auto order = std::make_shared<session_order>(*test::greedy_order("In the beginning God created the", 2000));
    order->params.sampling.temperature = 1;
    order->params.sampling.seed = 11;
    REQUIRE(device_->open({session_, 0, order}));
    next_ = {.number = 1, .tokens = order->prompt, .sampled = {{static_cast<std::uint32_t>(order->prompt.size() - 1), session_}}};
    for (std::uint32_t position = 0; position < order->prompt.size(); ++position) next_.rows.push_back({0, position});
  }

  void set_reserve(std::uint32_t mib) {
    REQUIRE(device_->begin_resize(reserve_of(mib)));
    finish();
  }

  bus::card_plan foresee(std::uint32_t reserve_mib) const {
    const auto said = device_->foresee(reserve_of(reserve_mib));
    REQUIRE(said);
    return *said;
  }

  struct measured {
    double hit_rate, ms_per_token;
  };
  measured decode(int n_windows) {
    const bus::card_info before = device_->info();
    const time_point began = time();
    for (int window = 0; window < n_windows; ++window) decode_one();
    const bus::card_info after = device_->info();
    const auto hits = static_cast<double>(after.hits - before.hits), misses = static_cast<double>(after.misses - before.misses);
    return {hits / (hits + misses), milliseconds_between(began, time()) / n_windows};
  }

 private:
  void finish() {
    while (!device_->resize_step()) {
    }
    REQUIRE(device_->end_resize());
  }

  void decode_one() {
    const auto ran = device_->run(next_);
    REQUIRE(ran);
    device_->adapt();
    next_ = {.number = next_.number + 1, .rows = {{0, next_.rows.back().position + 1}}, .tokens = {ran->picked[0].token}, .sampled = {{0, session_}}};
  }

  time_point time() const {
    constexpr double picks_per_token = 6 * 4;
    const bus::card_info so_far = device_ ? device_->info() : bus::card_info{};
    const double ms = static_cast<double>(so_far.hits + so_far.misses) / picks_per_token + 0.05 * static_cast<double>(so_far.misses);
    return time_point(std::chrono::hours(1)) + std::chrono::nanoseconds(static_cast<std::int64_t>(ms * 1e6));
  }

  const session_id session_{1};
  std::unique_ptr<card> device_;
  window next_;
};

TEST_CASE("what a card foresees of a reserve in the middle of an answer comes true: hits within 15 percent, and the time of a token") {
  answering_card card;
  CHECK(card.foresee(10).ms_per_token == 0);  // nothing has been measured yet
  card.decode(300);
  for (const std::uint32_t reserve_mib : {6u, 12u, 18u, 21u, 24u}) {
    CAPTURE(reserve_mib);
    const bus::card_plan foreseen = card.foresee(reserve_mib);
    card.set_reserve(reserve_mib);
    const auto measured = card.decode(250);
    CAPTURE(foreseen.hit_rate, measured.hit_rate, foreseen.ms_per_token, measured.ms_per_token);
    CHECK(std::abs(foreseen.hit_rate - measured.hit_rate) <= 0.15 * std::max(measured.hit_rate, 0.1));
    // The first reserve is foreseen from a full cache, where no miss has shown yet what it costs.
    if (reserve_mib > 6) CHECK(foreseen.ms_per_token == Approx(measured.ms_per_token).epsilon(0.15));
    CHECK(card.foresee(reserve_mib).ms_per_token_now == Approx(measured.ms_per_token).epsilon(0.15));
  }
  const bus::card_plan back = card.foresee(0);
  CHECK(back.hit_rate == 1);
  CHECK(back.ms_per_token == Approx(1).epsilon(0.15));
}

TEST_CASE("foreseeing changes nothing, and says how short a reserve would be") {
  answering_card card;
  card.decode(20);
  const bus::card_plan first = card.foresee(30);
  CHECK(first.expert_slots == 0);
  CHECK(first.short_mib > 5);
  CHECK(first.hit_rate == 0);
  CHECK(first.hit_rate_now == 1);
  CHECK(card.foresee(30) == first);
  CHECK(card.decode(20).hit_rate == 1);
}

}  // namespace
}  // namespace ebb::actors

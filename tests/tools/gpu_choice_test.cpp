#include "tools/gpu_choice.hpp"
#include "config/limits.hpp"
#include <catch2/catch.hpp>
#include <deque>

using namespace ebb;
using namespace ebb::tools;

namespace {

constexpr std::uint64_t mib = 1u << 20;
const card_choice host{};
card_choice cuda(std::uint32_t gpu) { return {card_kind::cuda, gpu}; }

using reading = std::vector<std::optional<std::uint64_t>>;  // [GPUs]: what is free, in MiB

// A driver whose GPUs have free what the test writes: one reading after the other, the last for ever.
class listing_driver final : public kernels::gpu_driver {
 public:
  explicit listing_driver(std::deque<reading> readings) : readings_(std::move(readings)) {}

  result<std::vector<kernels::gpu_description>> list() const override {
    const reading now = readings_.front();
    if (readings_.size() > 1) readings_.pop_front();
    std::vector<kernels::gpu_description> gpus;
    for (std::uint32_t number = 0; number < now.size(); ++number) {
      gpus.push_back({.number = number, .name = "Some GPU", .pci_address = {}, .uuid = {}, .total_bytes = 80'000 * mib, .free_bytes = {}});
      if (now[number]) gpus.back().free_bytes = *now[number] * mib;
    }
    return gpus;
  }
  result<std::shared_ptr<kernels::gpu>> open(std::uint32_t) const override { return fail(errc::internal, "a context was taken"); }

 private:
  mutable std::deque<reading> readings_;
};

gpu_loader with(std::deque<reading> readings) {
  return [readings]() -> result<std::shared_ptr<kernels::gpu_driver>> { return std::make_shared<listing_driver>(readings); };
}
gpu_reader of(const listing_driver& driver) {
  return [driver] { return driver.list(); };
}
gpu_loader without(errc why = errc::unknown_device) {
  return [why]() -> result<std::shared_ptr<kernels::gpu_driver>> { return fail(why, "cuda: no driver: nothing is there"); };
}

// A clock that goes on by the pauses that are made.
struct waited {
  actors::time_point now{std::chrono::hours(1)};
  std::chrono::milliseconds paused{0};
  std::vector<std::string> told;
  std::stop_source stop;

  free_vram_wait how(std::uint32_t min_free_mib) {
    return {.min_free_mib = min_free_mib,
            .now = [this] { return now; },
            .pause = [this](std::chrono::milliseconds time) { now += time, paused += time; },
            .tell = [this](const std::string& text) { told.push_back(text); },
            .stop = stop.get_token()};
  }
};

}  // namespace

TEST_CASE("\"auto\" is every GPU that the driver lists, else one host card") {
  const auto two = choose_cards({}, with({reading{100, 200}}));
  REQUIRE(two);
  CHECK(two->cards == std::vector<card_choice>{cuda(0), cuda(1)});
  CHECK(two->driver != nullptr);
  for (const gpu_loader& load : {with({reading{}}), without()}) {
    const auto none = choose_cards({}, load);
    REQUIRE(none);
    CHECK(none->cards == std::vector<card_choice>{host});
    CHECK(none->driver == nullptr);
    CHECK_FALSE(none->warning);  // nothing is here: a host card is what was meant
  }
  CHECK_FALSE(choose_cards({}, without(errc::card_lost)));  // there is a driver, and it fails: that is not hidden
}

TEST_CASE("\"auto\" takes a host card where a GPU is here and cannot be used, and warns of why and of the way out") {
  const gpu_loader broken_module = without(errc::refused);
  const gpu_loader every_gpu_refused = []() -> result<std::shared_ptr<kernels::gpu_driver>> {
    class old_gpus final : public kernels::gpu_driver {
      result<std::vector<kernels::gpu_description>> list() const override { return fail(errc::refused, "cuda: no driver: nothing is there"); }
      result<std::shared_ptr<kernels::gpu>> open(std::uint32_t) const override { return fail(errc::internal, "a context was taken"); }
    };
    return std::make_shared<old_gpus>();
  };
  for (const gpu_loader& load : {broken_module, every_gpu_refused}) {
    const auto chosen = choose_cards({}, load);
    REQUIRE(chosen);
    CHECK(chosen->cards == std::vector<card_choice>{host});
    CHECK(chosen->driver == nullptr);
    REQUIRE(chosen->warning);
    CHECK_THAT(chosen->warning->text, Catch::Contains("`cards`") && Catch::Contains("cuda: no driver: nothing is there") && Catch::Contains("cards = [\"host\"]"));
  }
  CHECK(choose_cards({cuda(0)}, broken_module).error().code == errc::refused);
}

TEST_CASE("cards that are named are taken as they are, and the driver is loaded only where one is a GPU") {
  const auto mixed = choose_cards({host, cuda(1), cuda(1)}, with({reading{100, 200}}));
  REQUIRE(mixed);
  CHECK(mixed->cards == std::vector<card_choice>{host, cuda(1), cuda(1)});
  CHECK(mixed->driver != nullptr);
  const auto hosts = choose_cards({host, host}, [] () -> result<std::shared_ptr<kernels::gpu_driver>> { throw std::logic_error("loaded"); });
  REQUIRE(hosts);
  CHECK(hosts->driver == nullptr);
}

TEST_CASE("a GPU that is named where there is no driver is refused with why, and the way out") {
  const auto refused = choose_cards({host, cuda(3)}, without());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unknown_device);
  CHECK(refused.error().text == "setting `cards`: \"cuda:3\" cannot be used: cuda: no driver: nothing is there");
}

TEST_CASE("a start waits until every GPU of the run has enough free, and tells which have not") {
  const std::vector<card_choice> cards{cuda(0), cuda(2)};
  const listing_driver driver({reading{500, 0, 900}, reading{600, 0, 900}, reading{1000, 0, 900}, reading{1000, 0, 1000}});
  waited here;
  const auto gpus = wait_for_free_vram(of(driver), cards, here.how(1000));
  REQUIRE(gpus);
  CHECK((*gpus)[2].free_bytes == 1000 * mib);
  CHECK(here.paused == 3 * limits::free_vram_interval);
  REQUIRE(here.told.size() == 2);  // once for each set of GPUs
  CHECK(here.told[0] == "setting `min_free_vram_mib`: 1000 MiB must be free on every GPU, and cuda:0 (Some GPU) has 500 MiB, "
                        "cuda:2 (Some GPU) has 900 MiB; waiting");
  CHECK_THAT(here.told[1], Catch::Contains("and cuda:2 (Some GPU) has 900 MiB; waiting"));
}

TEST_CASE("a start that waits in vain for free VRAM refuses, and names the GPUs that are too full") {
  const std::vector<card_choice> cards{cuda(0), cuda(1)};
  const listing_driver driver({reading{5000, 900}});
  waited here;
  const auto gpus = wait_for_free_vram(of(driver), cards, here.how(1000));
  REQUIRE_FALSE(gpus);
  CHECK(gpus.error().code == errc::short_of);
  CHECK_THAT(gpus.error().text, Catch::Contains("`min_free_vram_mib`") && Catch::Contains("cuda:1 (Some GPU) has 900 MiB") && Catch::Contains("60 s"));
  CHECK_THAT(gpus.error().text, !Catch::Contains("cuda:0"));
  CHECK(here.paused >= limits::free_vram_wait);
  CHECK(here.paused <= limits::free_vram_wait + limits::free_vram_interval);
}

TEST_CASE("nothing is waited for where no mark is set, or a figure is not known, and a stop ends the wait") {
  const std::vector<card_choice> cards{cuda(0)};
  waited here;
  CHECK(wait_for_free_vram(of(listing_driver({reading{0}})), cards, here.how(0)));
  CHECK(wait_for_free_vram(of(listing_driver({reading{std::nullopt}})), cards, here.how(1000)));
  CHECK(here.paused.count() == 0);
  here.stop.request_stop();
  const auto stopped = wait_for_free_vram(of(listing_driver({reading{0}})), cards, here.how(1000));
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == errc::cancelled);
}

TEST_CASE("each card's share of the model is what is free on its GPU, which cards on the same one share; none if a figure is missing") {
  const auto gpus = listing_driver({reading{8000, 3000}}).list().value();
  CHECK(shares_of(std::vector{cuda(0), cuda(1)}, gpus) == std::vector<double>{8000.0 * mib, 3000.0 * mib});
  CHECK(shares_of(std::vector{cuda(0), cuda(0), cuda(1)}, gpus) == std::vector<double>{4000.0 * mib, 4000.0 * mib, 3000.0 * mib});
  CHECK(shares_of(std::vector{cuda(0), host}, gpus).empty());
  CHECK(shares_of(std::vector{cuda(0), cuda(7)}, gpus).empty());
  CHECK(shares_of(std::vector{cuda(0)}, listing_driver({reading{std::nullopt}}).list().value()).empty());
}

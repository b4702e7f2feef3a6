#include "actors/profile_actor.hpp"
#include "config/limits.hpp"
#include "support/cast.hpp"

namespace ebb::actors {
namespace {

using test::cast;

bus::generate greedy(std::uint32_t n_tokens) {
  bus::generate asked;
  asked.prompt = "In the beginning";
  asked.max_tokens = n_tokens;
  asked.ignore_eos = true;
  return asked;
}

TEST_CASE("the heats of all cards are kept as those of one model, every so often and when asked") {
  cast actors({.first_layers = {0, 2}});
  std::vector<std::vector<float>> kept;
  const profile_actor profile = actors.system().spawn(profile_behavior, actors.cards, keep_heat([&](std::vector<float> heat) { kept.push_back(std::move(heat)); }));
  actors.run();
  actors.send({"ada"}, {{std::uint64_t{1}}, false, greedy(20)});
  actors.run();
  CHECK(kept.empty());
  actors.pass(limits::profile_interval);
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].size() == 6 * 32);
  for (std::size_t layer = 0; layer < 6; ++layer) {
    CAPTURE(layer);
    CHECK(*std::max_element(kept[0].begin() + 32 * layer, kept[0].begin() + 32 * (layer + 1)) > 1);
  }
  actors.pass(limits::profile_interval);
  CHECK(kept.size() == 2);
  CHECK(actors.ask<std::uint64_t>(profile, save_atom::value) == std::uint64_t{6 * 32});
  CHECK(kept.size() == 3);
  CHECK(kept[2] == kept[0]);
  actors.end(profile);
  actors.run();
}

TEST_CASE("of cards that are not loaded nothing is kept") {
  cast actors({.first_layers = {0, 2}, .load = false});
  int kept = 0;
  const profile_actor profile = actors.system().spawn(profile_behavior, actors.cards, keep_heat([&](const std::vector<float>&) { ++kept; }));
  const auto saved = actors.ask<std::uint64_t>(profile, save_atom::value);
  REQUIRE_FALSE(saved);
  CHECK(saved.error().code == errc::not_loaded);
  CHECK(kept == 0);
  actors.end(profile);
  actors.run();
}

}  // namespace
}  // namespace ebb::actors

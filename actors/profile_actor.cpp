#include "actors/profile_actor.hpp"
#include "config/limits.hpp"
#include <algorithm>

namespace ebb::actors {
namespace {

using profile_pointer = profile_actor::stateful_pointer<profile_state>;

struct gathering {
  caf::typed_response_promise<std::uint64_t> promise;
  std::vector<stage_heat> stages;
  std::size_t missing;
  std::optional<error> failure;
};

void finish(profile_pointer self, gathering& all) {
  if (all.failure) {
    all.promise.deliver(to_caf(*all.failure));
    return;
  }
  std::sort(all.stages.begin(), all.stages.end(), [](const auto& a, const auto& b) { return a.layer_begin < b.layer_begin; });
  std::vector<float> heat;
  for (const stage_heat& stage : all.stages) heat.insert(heat.end(), stage.heat.begin(), stage.heat.end());
  const std::uint64_t count = heat.size();
  self->state.keep(std::move(heat));
  all.promise.deliver(count);
}

caf::result<std::uint64_t> save(profile_pointer self) {
  const auto all = std::make_shared<gathering>(gathering{self->make_response_promise<std::uint64_t>(), {}, self->state.cards.size(), {}});
  const auto answered = [self, all] {
    if (--all->missing == 0) finish(self, *all);
  };
  for (const card_actor& card : self->state.cards) {
    self->request(card, limits::status_timeout, heat_atom::value)
        .then(
            [all, answered](const stage_heat& stage) {
              all->stages.push_back(stage);
              answered();
            },
            [all, answered](const caf::error& why) {
              all->failure = from_caf(why);
              answered();
            });
  }
  return all->promise;
}

void set_tick(profile_pointer self) { self->delayed_send(self, limits::profile_interval, tick_atom::value); }

}  // namespace

profile_actor::behavior_type profile_behavior(profile_pointer self, std::vector<card_actor> cards, keep_heat keep) {
  self->state.cards = std::move(cards);
  self->state.keep = std::move(keep);
  set_tick(self);
  return {
      [self](save_atom) { return save(self); },
      [self](tick_atom) {
        set_tick(self);
        // A card that cannot answer now is asked again at the next tick; a lost one has said so itself.
        self->request(profile_actor(self), limits::profile_interval, save_atom::value).then([](std::uint64_t) {}, [](const caf::error&) {});
      },
  };
}

}  // namespace ebb::actors

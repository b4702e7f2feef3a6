#include "tools/ebb/commands.hpp"

namespace ebb::tools {

result<settings> settings_of(const engine_choice& engine) {
  settings_sources sources{.file = engine.config, .variables = ebb_environment(), .overrides = engine.overrides};
  auto from = load_settings(sources);
  if (!from) return from;
  from->model = engine.model;
  if (engine.threads > 0) from->threads = engine.threads;
  if (engine.cards > 0) from->cards.assign(engine.cards, card_choice{});
  return from;
}

}  // namespace ebb::tools

#include "tools/ebb/local_engine.hpp"
#include "tools/ebb/progress_bar.hpp"
#include <cstdlib>

namespace ebb::tools {

result<engine_options> options_of(const engine_choice& engine) {
  auto from = settings_of(engine);
  if (!from) return fail(from.error());
  const char* isa = std::getenv("EBB_ISA");
  const auto warn = [](const error& what) { report_error(what); };
  return engine_options{.from = std::move(*from), .forced_isa = isa == nullptr ? "" : isa, .progress = {}, .warn = warn};
}

result<std::unique_ptr<local_connection>> start_local(const engine_choice& engine) {
  auto options = options_of(engine);
  if (!options) return fail(options.error());
  options->progress = progress_bar("loading");
  return local_connection::start(*options);
}

}  // namespace ebb::tools

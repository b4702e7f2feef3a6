// tools/ebb/run.cpp: `ebb run`: an engine in this process, one answer, the end.
#include "tools/ebb/local_engine.hpp"
#include "tools/ebb/streaming.hpp"

namespace ebb::tools {

int run(const engine_choice& engine, const generate_options& options) {
  auto local = start_local(engine);
  if (!local) return report_error(local.error());
  return stream_answer(**local, options);
}

}  // namespace ebb::tools

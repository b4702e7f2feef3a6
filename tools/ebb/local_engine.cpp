#include "tools/ebb/local_engine.hpp"
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace ebb::tools {
namespace {

void draw_progress(double share) {
  constexpr int width = 40;
  const int filled = static_cast<int>(share * width);
  std::fprintf(stderr, "\rloading [%s%s] %3.0f %%", std::string(filled, '#').c_str(), std::string(width - filled, ' ').c_str(), share * 100);
  if (share >= 1) std::fputs("\r\033[K", stderr);
}

}  // namespace

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
  if (isatty(STDERR_FILENO) != 0) options->progress = draw_progress;
  return local_connection::start(*options);
}

}  // namespace ebb::tools

// tools/ebb/local_engine.hpp: an engine in this process, with a progress bar while it loads.
#pragma once
#include "tools/connection.hpp"
#include "tools/ebb/commands.hpp"

namespace ebb::tools {

// The options that a choice means, EBB_ISA included; errors are those of the settings.
result<engine_options> options_of(const engine_choice& engine);

// The bar is drawn on stderr, and only where that is a terminal.
result<std::unique_ptr<local_connection>> start_local(const engine_choice& engine);

}  // namespace ebb::tools

// tools/exit_code.hpp: what the commands tell the shell; each help text repeats it.
#pragma once
#include "config/result.hpp"

namespace ebb::tools {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;     // the command was understood and did not succeed; `ebb verify`: a hash differs
inline constexpr int exit_usage = 2;      // bad arguments or settings
inline constexpr int exit_no_daemon = 3;  // no daemon answers at the endpoint

// Bad arguments, settings and files are usage; everything else failed.
int exit_code_of(errc code);

}  // namespace ebb::tools

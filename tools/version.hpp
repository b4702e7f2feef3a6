// tools/version.hpp: the version that binaries and `status` report.
#pragma once

namespace ebb::tools {

inline constexpr const char* version = "0.1.0";

}  // namespace ebb::tools

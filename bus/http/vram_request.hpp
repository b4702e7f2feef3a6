// bus/http/vram_request.hpp: {"reserve_mib": uint|null, "gpu"?: uint}, of /v1/vram and /v1/vram/plan.
#pragma once
#include "bus/http/problem.hpp"
#include "bus/messages.hpp"
#include <string_view>

namespace ebb::bus::http {

// Errors: 400, by the name of the field.
outcome<vram> parse_vram(std::string_view body);

}  // namespace ebb::bus::http

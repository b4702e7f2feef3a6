// bus/http/metrics.hpp: what /metrics shows, from the replies of the bus.
#pragma once
#include "bus/messages.hpp"
#include <optional>
#include <string>

namespace ebb::bus::http {

// `cards` and `leases` are none while there is no model.
std::string metrics_of(const status_report& now, const std::optional<cards_report>& cards, const std::optional<lease_report>& leases);

}  // namespace ebb::bus::http

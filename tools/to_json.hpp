// tools/to_json.hpp: replies as JSON, with the names and units of the bus.
#pragma once
#include "bus/messages.hpp"
#include <nlohmann/json.hpp>

namespace ebb::tools {

nlohmann::ordered_json to_json(const bus::reply& reply);
nlohmann::ordered_json to_json(const bus::card_report& report);
nlohmann::ordered_json to_json(const bus::card_info& info);
nlohmann::ordered_json to_json(const bus::status_report& report);

}  // namespace ebb::tools

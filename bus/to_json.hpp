// bus/to_json.hpp: replies as JSON, with the names and units of the bus.
#pragma once
#include "bus/events.hpp"
#include "bus/messages.hpp"
#include <nlohmann/json.hpp>
#include <string>

namespace ebb::bus {

nlohmann::ordered_json to_json(const reply& reply);
nlohmann::ordered_json to_json(const card_report& report);
nlohmann::ordered_json to_json(const card_info& info);
nlohmann::ordered_json to_json(const status_report& report);
nlohmann::ordered_json to_json(const lease_info& lease);
nlohmann::ordered_json to_json(const card_plan& plan);
nlohmann::ordered_json to_json(const expert_map& map);

nlohmann::ordered_json to_json(const event& what);

// On one line. Paths and names from files may hold bytes that are no UTF-8; they become U+FFFD, since JSON allows nothing else.
std::string to_line(const nlohmann::ordered_json& what);

}  // namespace ebb::bus

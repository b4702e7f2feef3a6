// config/setting_keys.hpp: the one table of settings. Files, environment, command line and config/ebb.toml all follow it.
#pragma once
#include "config/settings.hpp"
#include "config/written_value.hpp"
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb {

struct setting_key {
  std::string_view name;  // "parallel", or "bus.listen" for a key of the table [bus]
  std::string_view why;   // one sentence
  std::string allowed;    // completes "allowed: "
  bool editable;          // PATCH /v1/config and `ebb config set` may change it; that counts from the next start
  std::function<bool(settings&, const written_value&)> assign;  // false: not an allowed value, and nothing has changed
  std::function<std::string(const settings&)> show;             // the value as TOML has it
};

// Every key, those of a table together, in the order of config/ebb.toml.
const std::vector<setting_key>& setting_keys();

// nullptr when there is none of that name.
const setting_key* find_setting_key(std::string_view name);

// Sets the key of that name, or says what is wrong; `place` begins the text: "ebb.toml:12", or the name of a variable.
// Errors: unknown_key, with the nearest known one; bad_value, with what is allowed. `into` is then unchanged.
result<void> assign_setting(settings& into, std::string_view name, const written_value& value, std::string_view place);

}  // namespace ebb

// config/toml_place.hpp: where in a TOML file something stands, for error texts: "ebb.toml:12".
#pragma once
#include <string>
#include <string_view>
#include <toml++/toml.h>

namespace ebb {

inline std::string place_of(std::string_view file, const toml::source_region& where) {
  return std::string(file) + ":" + std::to_string(where.begin.line);
}

}  // namespace ebb

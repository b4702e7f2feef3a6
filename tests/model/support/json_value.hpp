// tests/model/support/json_value.hpp: JSON as a value of a chat template.
#pragma once
#include "model/jinja/value.hpp"
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ebb::model::test {

inline jinja::value to_value(const nlohmann::ordered_json& from) {
  using jinja::value;
  if (from.is_null()) return value::nothing();
  if (from.is_boolean()) return from.get<bool>();
  if (from.is_number_integer()) return from.get<std::int64_t>();
  if (from.is_number()) return from.get<double>();
  if (from.is_string()) return jinja::text(from.get<std::string>(), true);
  if (from.is_array()) {
    std::vector<value> items;
    for (const auto& item : from) items.push_back(to_value(item));
    return value::list(std::move(items));
  }
  std::vector<std::pair<value, value>> entries;
  for (const auto& [key, held] : from.items()) entries.emplace_back(jinja::text(key, true), to_value(held));
  return value::dict(std::move(entries));
}

}  // namespace ebb::model::test

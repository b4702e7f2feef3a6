// bus/http/config_routes.cpp: /v1/config: the settings in force, and those of the next start, some of which can be edited.
//
// A secret is never among the settings: they name files that hold them.
#include "bus/http/all_routes.hpp"
#include "bus/http/json_body.hpp"
#include "bus/http/json_response.hpp"
#include "config/nearest.hpp"
#include "config/setting_keys.hpp"
#include "config/settings_edit.hpp"
#include "config/utf8.hpp"

namespace ebb::bus::http {
namespace {

using json = nlohmann::ordered_json;

// Every value of a setting is written alike in TOML and JSON, but for the long escapes of text.
json value_of(const setting_key& key, const settings& from) {
  json value = json::parse(key.show(from), nullptr, false);
  return value.is_discarded() ? json(key.show(from)) : value;
}

// Keys of a table lie in an object of its name.
json as_json(const settings& from) {
  json out = json::object();
  for (const setting_key& key : setting_keys()) {
    const auto dot = key.name.find('.');
    if (dot == std::string_view::npos) out[std::string(key.name)] = value_of(key, from);
    else out[std::string(key.name.substr(0, dot))][std::string(key.name.substr(dot + 1))] = value_of(key, from);
  }
  return out;
}

json editable_keys() {
  json out = json::array();
  for (const setting_key& key : setting_keys()) {
    if (key.editable) out.push_back(key.name);
  }
  return out;
}

json editable_of(const settings& from) {
  json out = json::object();
  for (const setting_key& key : setting_keys()) {
    if (key.editable) out[std::string(key.name)] = value_of(key, from);
  }
  return out;
}

response show_config(context& of, const request&) {
  json out{{"settings", as_json(of.running)}, {"editable", editable_keys()}, {"file", of.settings_file.empty() ? json(nullptr) : json(of.settings_file.string())}};
  if (of.settings_file.empty()) return json_response(out);
  const std::lock_guard lock(of.settings_file_mutex);
  if (const auto next = read_settings_file(of.settings_file)) out["next_start"] = editable_of(*next);
  else out["next_start_error"] = next.error().text;
  return json_response(out);
}

written_value written(const nlohmann::json& value) {
  const std::string text = value.dump();
  if (value.is_boolean()) return {value.get<bool>(), text};
  if (value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{1} << 62)) return {value.get<std::int64_t>(), text};
  if (value.is_number_float()) return {value.get<double>(), text};
  if (value.is_string()) return {value.get<std::string>(), text};
  if (!value.is_array()) return {written_value::other{}, shown(value)};
  written_value::list items;
  for (const auto& each : value) items.push_back(written(each));
  return {std::move(items), text};
}

outcome<std::vector<setting_edit>> parse_edits(std::string_view body) {
  const auto object = parse_object(body);
  if (!object) return tl::unexpected(object.error());
  if (object->empty()) return refuse(400, "missing_key", "no setting is named; send {\"KEY\": VALUE}, such as {\"vram_reserve_mib\": 900}");
  std::vector<setting_edit> edits;
  for (const auto& [key, value] : object->items()) {
    const setting_key* known = find_setting_key(key);
    if (known == nullptr) {
      std::vector<std::string_view> names;
      for (const setting_key& each : setting_keys()) names.push_back(each.name);
      return refuse(400, "unknown_key", "there is no setting " + in_quotes(key) + did_you_mean(key, names), key);
    }
    if (!known->editable) {
      return refuse(409, "refused", "the setting `" + key + "` cannot be edited so; change the file by hand. Those that can: " + editable_keys().dump(), key);
    }
    settings ignored;
    if (!known->assign(ignored, written(value))) return refuse(400, "bad_value", "the setting `" + key + "` must be " + known->allowed + ", not " + shown(value), key);
    edits.push_back({key, written(value)});
  }
  return edits;
}

response edit_config(context& of, const request& asked) {
  const auto edits = parse_edits(asked.body);
  if (!edits) return response_of(edits.error());
  if (of.settings_file.empty()) {
    return response_of({409, "refused", "the daemon was started without a settings file, so nothing would be kept; start it with --config FILE", {}});
  }
  const std::lock_guard lock(of.settings_file_mutex);
  const auto next = edit_settings_file(of.settings_file, *edits);
  if (!next) return response_of({next.error().code == errc::refused ? 409 : 500, std::string(to_string(next.error().code)), next.error().text, {}});
  return json_response({{"file", of.settings_file.string()}, {"next_start", editable_of(*next)}});
}

}  // namespace

void add_config_routes(routes& into, context& of) {
  into.add("GET", "/v1/config", [&of](const request& asked) { return show_config(of, asked); });
  into.add("PATCH", "/v1/config", [&of](const request& asked) { return edit_config(of, asked); });
}

}  // namespace ebb::bus::http

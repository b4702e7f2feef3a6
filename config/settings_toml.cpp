// config/settings_toml.cpp: settings as TOML. The exceptions of toml++ end here.
#include "config/setting_keys.hpp"
#include "config/toml_place.hpp"
#include <exception>
#include <sstream>

namespace ebb {
namespace {

std::string shown(const toml::node& node) {
  std::ostringstream text;
  text << toml::toml_formatter(node);
  return text.str();
}

written_value written(const toml::node& node) {
  const std::string text = shown(node);
  if (const auto* flag = node.as_boolean()) return {flag->get(), text};
  if (const auto* integer = node.as_integer()) return {integer->get(), text};
  if (const auto* real = node.as_floating_point()) return {real->get(), text};
  if (const auto* string = node.as_string()) return {string->get(), text};
  if (const auto* array = node.as_array()) {
    written_value::list items;
    for (const toml::node& item : *array) items.push_back(written(item));
    return {std::move(items), text};
  }
  return {written_value::other{}, text};
}

// Whether keys of a table with this name exist: "bus" for bus.listen.
bool is_section(std::string_view name) {
  for (const setting_key& key : setting_keys()) {
    if (key.name.size() > name.size() && key.name.starts_with(name) && key.name[name.size()] == '.') return true;
  }
  return false;
}

// `prefix` is "" at the top, "bus." in [bus].
result<void> apply_table(settings& into, const toml::table& table, const std::string& prefix, std::string_view file) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const toml::table* const section = is_section(name) ? node.as_table() : nullptr;
    result<void> done =
        section ? apply_table(into, *section, name + ".", file) : assign_setting(into, name, written(node), place_of(file, key.source()));
    if (!done) return done;
  }
  return {};
}

std::string section_of(std::string_view key) {
  const std::size_t dot = key.find('.');
  return dot == std::string_view::npos ? "" : std::string(key.substr(0, dot));
}

constexpr std::string_view file_head =
    "# The settings of Ebb: every key, its default, what is allowed.\n"
    "#\n"
    "# An environment variable overrides this file: EBB_PARALLEL=2, EBB_BUS_LISTEN=auto,tcp://127.0.0.1:5560.\n"
    "# --set key=value on the command line overrides both: --set bus.listen=auto. In these two, lists are written with commas.\n"
    "# Keys marked (n) can also be edited while Ebb runs (`ebb config set`); that counts from the next start.\n";

}  // namespace

result<void> apply_toml(settings& into, std::string_view text, std::string_view file) {
  try {
    settings changed = into;
    const toml::table table = toml::parse(text, file);
    if (result<void> done = apply_table(changed, table, "", file); !done) return done;
    into = std::move(changed);
    return {};
  } catch (const toml::parse_error& wrong) {
    return fail(errc::malformed, place_of(file, wrong.source()) + ": this is no TOML: " + std::string(wrong.description()));
  } catch (const std::exception& wrong) {
    return fail(errc::internal, std::string(file) + ": reading the settings failed: " + wrong.what());
  }
}

std::string to_toml(const settings& from) {
  std::string toml(file_head);
  std::string section;
  for (const setting_key& key : setting_keys()) {
    const std::string in_section = section_of(key.name);
    if (in_section != section) toml += "\n[" + in_section + "]\n";
    section = in_section;
    const std::string name(key.name.substr(section.empty() ? 0 : section.size() + 1));
    toml += "\n# " + std::string(key.why) + (key.editable ? " (n)" : "") + "\n# Allowed: " + key.allowed + ".\n";
    toml += name + " = " + key.show(from) + "\n";
  }
  return toml;
}

}  // namespace ebb

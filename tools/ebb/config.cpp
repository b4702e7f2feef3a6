// tools/ebb/config.cpp: `ebb config`: the settings of a file, and single values of it changed for the next start.
#include "config/setting_keys.hpp"
#include "config/settings_edit.hpp"
#include "config/utf8.hpp"
#include "tools/ebb/commands.hpp"
#include "tools/exit_code.hpp"
#include <iostream>

namespace ebb::tools {

int config_show(const std::string& file) {
  const auto read = file.empty() ? result<settings>(settings{}) : read_settings_file(file);
  if (!read) return report_error(read.error());
  std::cout << to_toml(*read);
  return exit_ok;
}

int config_set(const config_set_options& options) {
  const written_value value(written_value::bare{}, options.value);
  const auto next = edit_settings_file(options.file, {{options.key, value}});
  if (!next) return report_error(next.error());
  std::cout << options.key << " = " << find_setting_key(options.key)->show(*next) << " in " << on_one_line(options.file) << ", from the next start\n";
  return exit_ok;
}

}  // namespace ebb::tools

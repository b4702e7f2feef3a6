// config/settings_edit.hpp: changes single values in a settings file and leaves the rest of it as it is, comments and order included.
//
// Only the keys that setting_keys() calls editable; what is changed counts from the next start.
#pragma once
#include "config/result.hpp"
#include "config/settings.hpp"
#include "config/written_value.hpp"
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ebb {

struct setting_edit {
  std::string key;
  written_value value;
};

// The text of a file, with these values in it. `file` is for the error texts. Errors, with which nothing has changed: unknown_key, bad_value;
// refused (a key that is not editable; a file whose form is too uncommon to be edited); those of apply_toml, for what is in the file already.
result<std::string> edit_settings(std::string_view text, const std::vector<setting_edit>& edits, std::string_view file);

// Reads the file, edits it, and puts it in its own place at once, or leaves it as it is. One that is not there is begun; its folder must be there.
// Gives what the file now says. Errors: those of edit_settings; file_unreadable, file_unwritable.
result<settings> edit_settings_file(const std::filesystem::path& file, const std::vector<setting_edit>& edits);

// What the file says by itself, without environment and command line. Errors: file_unreadable, those of apply_toml.
result<settings> read_settings_file(const std::filesystem::path& file);

}  // namespace ebb

#include "config/settings_edit.hpp"
#include "config/setting_keys.hpp"
#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <optional>
#include <sys/stat.h>
#include <system_error>
#include <toml++/toml.h>
#include <unistd.h>

namespace ebb {
namespace {

namespace fs = std::filesystem;

tl::unexpected<error> unwritable(const fs::path& path) { return fail(errc::file_unwritable, path.string() + ": cannot be written: " + std::generic_category().message(errno)); }

// The byte at which a position of toml++ lies: it counts lines and characters, from 1.
std::size_t offset_of(std::string_view text, const toml::source_position& where) {
  std::size_t at = 0;
  for (toml::source_index line = 1; line < where.line && at != std::string_view::npos; ++line) at = text.find('\n', at) + 1;
  for (toml::source_index column = 1; column < where.column && at < text.size(); ++column) {
    do ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  }
  return std::min(at, text.size());
}

bool says(std::string_view text, const settings& wanted, std::string_view file) {
  settings read;
  return apply_toml(read, text, file) && read == wanted;
}

// The first of several places for the value at which the file says what is wanted; only reading it again can tell.
std::optional<std::string> with_value(std::string_view text, std::string_view key, const std::string& value, const settings& wanted, std::string_view file) {
  const std::string before(text);
  const toml::table table = toml::parse(text, file);
  if (const toml::node* found = table.get(key)) {
    const std::size_t begin = offset_of(text, found->source().begin);
    const std::size_t end = offset_of(text, found->source().end);
    std::string after = before.substr(0, begin) + value + before.substr(end);
    if (says(after, wanted, file)) return after;
    return std::nullopt;
  }
  const std::string line = std::string(key) + " = " + value + "\n";
  for (std::size_t at = 0; at < before.size();) {  // above the tables, the first of which begins with a bracket
    const std::size_t end = std::min(before.find('\n', at), before.size());
    const std::size_t first = before.find_first_not_of(" \t", at);
    if (first < end && before[first] == '[') {
      std::string after = before.substr(0, at) + line + (at == 0 || first != at ? "" : "\n") + before.substr(at);
      if (says(after, wanted, file)) return after;
    }
    at = end + 1;
  }
  std::string after = before + (before.empty() || before.back() == '\n' ? "" : "\n") + line;
  if (says(after, wanted, file)) return after;
  return std::nullopt;
}

result<std::string> read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail(errc::file_unreadable, file.string() + ": cannot be read: " + std::generic_category().message(errno));
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) return fail(errc::file_unreadable, file.string() + ": cannot be read");
  return text;
}

bool write_through(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(fd) == 0;
}

// With the rights that the old one had.
result<void> replace(const fs::path& file, std::string_view text) {
  struct stat now {};
  const mode_t mode = ::stat(file.c_str(), &now) == 0 ? now.st_mode & 07777 : 0644;
  const fs::path fresh = file.string() + ".new";
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return unwritable(fresh);
  const bool written = write_through(fd, text) && ::fchmod(fd, mode) == 0;
  result<void> failed = written ? result<void>{} : unwritable(fresh);
  ::close(fd);
  if (written && ::rename(fresh.c_str(), file.c_str()) == 0) return {};
  if (written) failed = unwritable(file);
  ::unlink(fresh.c_str());
  return failed;
}

}  // namespace

result<std::string> edit_settings(std::string_view text, const std::vector<setting_edit>& edits, std::string_view file) try {
  settings wanted;
  if (auto read = apply_toml(wanted, text, file); !read) return fail(read.error());
  std::string edited(text);
  for (const setting_edit& each : edits) {
    if (auto assigned = assign_setting(wanted, each.key, each.value, file); !assigned) return fail(assigned.error());
    const setting_key& key = *find_setting_key(each.key);
    if (!key.editable) {
      return fail(errc::refused, std::string(file) + ": " + each.key + " is not among the keys that can be edited so; change the file by hand");
    }
    auto next = with_value(edited, key.name, key.show(wanted), wanted, file);
    if (!next) return fail(errc::refused, std::string(file) + ": " + each.key + " stands there in a form that is not edited here; change the file by hand");
    edited = *std::move(next);
  }
  return edited;
} catch (const std::exception& wrong) {
  return fail(errc::internal, std::string(file) + ": editing the settings failed: " + wrong.what());
}

result<settings> read_settings_file(const fs::path& file) {
  const auto text = read_text(file);
  if (!text) return fail(text.error());
  settings read;
  if (auto applied = apply_toml(read, *text, file.string()); !applied) return fail(applied.error());
  return read;
}

result<settings> edit_settings_file(const fs::path& file, const std::vector<setting_edit>& edits) {
  std::error_code none;
  const fs::path real = fs::weakly_canonical(file, none);  // what a link names is replaced, not the link
  const fs::path place = none ? file : real;
  std::string before;
  if (fs::exists(place, none)) {
    auto text = read_text(place);
    if (!text) return fail(text.error());
    before = *std::move(text);
  }
  const auto after = edit_settings(before, edits, file.string());
  if (!after) return fail(after.error());
  if (*after != before) {
    if (auto replaced = replace(place, *after); !replaced) return fail(replaced.error());
  }
  return read_settings_file(place);
}

}  // namespace ebb

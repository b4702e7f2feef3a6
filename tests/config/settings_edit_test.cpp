#include "config/settings_edit.hpp"
#include "config/setting_keys.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <sys/stat.h>

using namespace ebb;

namespace {

setting_edit edit(const std::string& key, const std::string& value) { return {key, written_value(written_value::bare{}, value)}; }

std::string edited(const std::string& text, const std::vector<setting_edit>& edits) {
  const auto after = edit_settings(text, edits, "ebb.toml");
  return after ? *after : "error: " + after.error().text;
}

errc code_of(const std::string& text, const setting_edit& one) {
  const auto after = edit_settings(text, {one}, "ebb.toml");
  return after ? errc::none : after.error().code;
}

std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a value is changed where it stands, and everything else stays, comments too") {
  CHECK(edited("# héllo\nvram_reserve_mib = 700  # for the desktop\nparallel = 2\n", {edit("vram_reserve_mib", "900")}) ==
        "# héllo\nvram_reserve_mib = 900  # for the desktop\nparallel = 2\n");
  CHECK(edited("vram_reserve_mib = [\n  700, # one\n  800,\n]\nparallel = 2\n[bus]\nlisten = \"auto\"\n", {edit("vram_reserve_mib", "1,2")}) ==
        "vram_reserve_mib = [1, 2]\nparallel = 2\n[bus]\nlisten = \"auto\"\n");
  CHECK(edited("\"vram_elastic\" = true\r\nparallel = 2\r\n", {edit("vram_elastic", "false")}) == "\"vram_elastic\" = false\r\nparallel = 2\r\n");
  CHECK(edited("vram_segment_mib = \"auto\" # x\n", {edit("vram_segment_mib", "128")}) == "vram_segment_mib = 128 # x\n");
}

TEST_CASE("a value that is not there yet comes above the first table") {
  CHECK(edited("", {edit("min_free_vram_mib", "5")}) == "min_free_vram_mib = 5\n");
  CHECK(edited("parallel = 2", {edit("min_free_vram_mib", "5")}) == "parallel = 2\nmin_free_vram_mib = 5\n");
  CHECK(edited("[bus]\nlisten = \"auto\"\n", {edit("min_free_vram_mib", "5")}) == "min_free_vram_mib = 5\n[bus]\nlisten = \"auto\"\n");
  CHECK(edited("layers = [\n0,\n3\n]\ncards = [\n\"host\", \"host\"]\n\n[http]\nlisten = \"\"\n", {edit("vram_elastic", "false"), edit("vram_reserve_mib", "1,2")}).find("error") ==
        std::string::npos);
}

TEST_CASE("the file of every default can have every editable key edited, and then says so") {
  const std::string all = to_toml(settings{});
  const std::vector<setting_edit> edits{edit("vram_elastic", "false"), edit("vram_segment_mib", "2"), edit("vram_reserve_mib", "77"), edit("min_free_vram_mib", "9")};
  settings wanted;
  for (const setting_edit& each : edits) REQUIRE(assign_setting(wanted, each.key, each.value, "test"));
  CHECK(edited(all, edits) == to_toml(wanted));
  std::size_t editable = 0;
  for (const setting_key& each : setting_keys()) editable += each.editable ? 1 : 0;
  CHECK(editable == edits.size());
}

TEST_CASE("what is not editable, not known, not allowed or not readable is refused by name") {
  CHECK(code_of("", edit("parallel", "2")) == errc::refused);
  CHECK(code_of("", edit("http.api_key_file", "/x")) == errc::refused);
  CHECK(code_of("", edit("vram_reserve", "2")) == errc::unknown_key);
  CHECK(code_of("", edit("vram_reserve_mib", "-2")) == errc::bad_value);
  CHECK(code_of("parallel = -1\n", edit("vram_reserve_mib", "2")) == errc::bad_value);
  CHECK(code_of("parallel = \n", edit("vram_reserve_mib", "2")) == errc::malformed);
}

TEST_CASE("a file keeps its rights, one that is not there is begun, and one that is refused stays as it was") {
  const bus::test::temporary_folder folder;
  const auto file = folder / "ebb.toml";
  const auto begun = edit_settings_file(file, {edit("vram_reserve_mib", "5")});
  REQUIRE(begun);
  CHECK(begun->vram_reserve_mib == std::vector<std::uint32_t>{5});
  ::chmod(file.c_str(), 0640);
  std::filesystem::create_symlink(file, folder / "link.toml");
  REQUIRE(edit_settings_file(folder / "link.toml", {edit("vram_reserve_mib", "6")}));
  CHECK(std::filesystem::is_symlink(folder / "link.toml"));
  CHECK(contents(file) == "vram_reserve_mib = 6\n");
  struct stat now {};
  ::stat(file.c_str(), &now);
  CHECK((now.st_mode & 0777) == 0640);
  CHECK_FALSE(edit_settings_file(file, {edit("vram_reserve_mib", "7"), edit("parallel", "1")}));
  CHECK(contents(file) == "vram_reserve_mib = 6\n");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
  CHECK(edit_settings_file(folder / "no" / "ebb.toml", {edit("vram_reserve_mib", "7")}).error().code == errc::file_unwritable);
}

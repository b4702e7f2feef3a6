#include "config/settings.hpp"
#include "config/assert.hpp"
#include "config/nearest.hpp"
#include "config/setting_keys.hpp"
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>
#include <unistd.h>

namespace ebb {
namespace {

constexpr std::string_view environment_prefix = "EBB_";
// Variables of the kernels and of the test scripts, which are read elsewhere.
constexpr std::string_view isa_variable = "EBB_ISA";
constexpr std::string_view test_prefix = "EBB_TEST_";

result<std::string> read_file(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file && !std::filesystem::is_directory(path)) {
    text.assign(std::istreambuf_iterator<char>(file), {});
    if (!file.bad()) return text;
  }
  const std::string reason = errno != 0 ? std::generic_category().message(errno) : "it is no plain file";
  return fail(errc::file_unreadable, path.string() + ": the settings cannot be read: " + reason);
}

std::string count_of(std::size_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

// What no key can check alone. How many cards "auto" makes is known only when they are opened.
result<void> check_together(const settings& all) {
  const std::size_t cards = all.cards.size();
  if (cards == 0) return {};
  if (!all.layers.empty() && all.layers.size() != cards) {
    return fail(errc::bad_value, "layers has " + count_of(all.layers.size(), "stage") + ", but cards has " + count_of(cards, "card") +
                                     "; allowed: \"auto\", or one first layer a card");
  }
  if (all.vram_reserve_mib.size() > 1 && all.vram_reserve_mib.size() != cards) {
    return fail(errc::bad_value, "vram_reserve_mib has " + count_of(all.vram_reserve_mib.size(), "number") + ", but cards has " +
                                     count_of(cards, "card") + "; allowed: \"auto\", one number for all, or one a card");
  }
  return {};
}

// EBB_BUS_LISTEN for bus.listen.
std::string variable_of(std::string_view key) {
  std::string name(environment_prefix);
  for (const char letter : key) name += letter == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return name;
}

result<void> unknown_variable(std::string_view name) {
  std::vector<std::string> variables;
  for (const setting_key& key : setting_keys()) variables.push_back(variable_of(key.name));
  const std::string guess = did_you_mean(name, std::vector<std::string_view>(variables.begin(), variables.end()));
  return fail(errc::unknown_key, "environment: " + std::string(name) + " is no setting" + (guess.empty() ? "; unset it" : guess));
}

result<void> apply_variable(settings& into, std::string_view name, const std::string& value) {
  if (!name.starts_with(environment_prefix) || name == isa_variable || name.starts_with(test_prefix)) return {};
  for (const setting_key& key : setting_keys()) {
    if (variable_of(key.name) == name) {
      return assign_setting(into, key.name, written_value(written_value::bare{}, value), "environment: " + std::string(name));
    }
  }
  return unknown_variable(name);
}

result<void> apply_override(settings& into, const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos) {
    return fail(errc::bad_value, "command line: \"" + argument + "\" sets nothing; allowed: key=value, such as parallel=2");
  }
  const written_value value(written_value::bare{}, argument.substr(equals + 1));
  return assign_setting(into, argument.substr(0, equals), value, "command line");
}

// Applies one item of `items` after the other to a copy, so that an error leaves `into` as it was.
template <class Items, class ApplyOne>
result<void> apply_all(settings& into, const Items& items, ApplyOne apply_one) {
  settings changed = into;
  for (const auto& item : items) {
    if (result<void> done = apply_one(changed, item); !done) return done;
  }
  into = std::move(changed);
  return {};
}

}  // namespace

std::uint64_t segment_bytes(const settings& from, card_kind kind) noexcept {
  if (from.vram_segment_bytes != 0) return from.vram_segment_bytes;
  return std::uint64_t{defaults_of(kind).segment_mib} << 20;
}

std::uint32_t reserve_mib(const settings& from, card_kind kind, std::size_t card) noexcept {
  const auto& reserves = from.vram_reserve_mib;
  if (reserves.empty()) return defaults_of(kind).reserve_mib;
  if (reserves.size() == 1) return reserves.front();
  EBB_ASSERT(card < reserves.size());
  return reserves[card];
}

environment ebb_environment() {
  environment ours;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos && line.starts_with(environment_prefix))
      ours.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return ours;
}

result<void> apply_environment(settings& into, const environment& variables) {
  return apply_all(into, variables,
                   [](settings& changed, const auto& variable) { return apply_variable(changed, variable.first, variable.second); });
}

result<void> apply_overrides(settings& into, const std::vector<std::string>& overrides) {
  return apply_all(into, overrides, apply_override);
}

result<settings> load_settings(const settings_sources& from) {
  settings all;
  result<void> step;
  if (!from.file.empty()) {
    step = read_file(from.file).and_then([&](const std::string& text) { return apply_toml(all, text, from.file.string()); });
  }
  step = step.and_then([&] { return apply_environment(all, from.variables); })
             .and_then([&] { return apply_overrides(all, from.overrides); })
             .and_then([&] { return check_together(all); });
  return step.map([&] { return std::move(all); });
}

}  // namespace ebb

#include "config/setting_keys.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <rapidcheck.h>
#include <set>

using ebb::settings;

namespace {

std::string shipped_file() {
  std::ifstream file(EBB_SOURCE_DIR "/config/ebb.toml");
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

rc::Gen<std::string> any_text() {
  // Every character that TOML escapes, and some that it does not.
  return rc::gen::container<std::string>(rc::gen::element('a', 'Z', '0', ' ', ',', '"', '\\', '\'', '#', '=', '\n', '\t', '\x01', '\x7f'));
}

template <class Int>
Int any_up_to(Int max) {
  return *rc::gen::inRange<Int>(0, max);
}

// Settings with other values than the defaults in every key.
settings any_settings() {
  settings all;
  all.model = *any_text();
  all.cards = *rc::gen::container<std::vector<ebb::card_choice>>(rc::gen::map(rc::gen::inRange<std::uint32_t>(0, 9), [](std::uint32_t gpu) {
    return gpu == 0 ? ebb::card_choice{} : ebb::card_choice{ebb::card_kind::cuda, gpu};
  }));
  for (std::uint32_t stage = 0, layer = 0; stage < any_up_to(5u); ++stage, layer += 1 + any_up_to(9u)) all.layers.push_back(layer);
  all.parallel = 1 + any_up_to(64u);
  all.context = any_up_to(1u << 20);
  all.threads = any_up_to(100u);
  all.vram_elastic = *rc::gen::arbitrary<bool>();
  all.vram_segment_bytes = 4096 * any_up_to(std::uint64_t{1} << 20);
  all.vram_reserve_mib = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange(0u, 9999u));
  all.host_card_mib = any_up_to(9999u);
  all.min_free_vram_mib = any_up_to(9999u);
  all.auto_yield = *rc::gen::arbitrary<bool>();
  all.profile = *any_text();
  all.state_dir = *any_text();
  all.journal = *any_text();
  all.bus = {{"auto", "ipc://" + *any_text() + "x"}, {"tcp://" + *any_text() + "x"}, *any_text()};
  if (*rc::gen::arbitrary<bool>()) all.bus.events.clear();
  all.http = {*any_text() + "x:" + std::to_string(1 + any_up_to(65535u)), *any_text(), {"https://" + *any_text() + "x"}};
  all.sampling.temperature = static_cast<float>(any_up_to(100000)) / 1000.0F;
  all.sampling.top_k = any_up_to(1u << 20);
  all.sampling.top_p = static_cast<float>(any_up_to(1000)) / 1000.0F;
  all.sampling.min_p = static_cast<float>(any_up_to(1000)) / 3000.0F;
  all.sampling.repeat_penalty = 0.5F + static_cast<float>(any_up_to(1000)) / 1000.0F;
  all.sampling.repeat_last_n = any_up_to(9999u);
  all.sampling.seed = any_up_to(std::uint64_t{1} << 62);
  all.sampling.max_tokens = 1 + any_up_to(9999u);
  return all;
}

}  // namespace

TEST_CASE("config/ebb.toml is what to_toml writes for the defaults: every key, its default, its reason") {
  // After a change of a key, the file is written again with the text that this comparison shows.
  CHECK(shipped_file() == ebb::to_toml({}));
}

TEST_CASE("config/ebb.toml reads as exactly the defaults") {
  settings changed;
  changed.parallel = 1;
  changed.bus.listen = {"ipc:///elsewhere"};
  changed.vram_reserve_mib = {5};
  changed.cards = {{}};
  REQUIRE(ebb::apply_toml(changed, shipped_file(), "config/ebb.toml"));
  CHECK(changed == settings{});
}

TEST_CASE("settings written as TOML read back as the same settings") {
  CHECK(rc::check([] {
    const settings before = any_settings();
    settings after;
    const auto done = ebb::apply_toml(after, ebb::to_toml(before), "test.toml");
    if (!done) RC_FAIL(done.error().text);
    RC_ASSERT(after == before);
  }));
}

TEST_CASE("every key's own default is a value that it allows, in a file and as a variable's text") {
  for (const ebb::setting_key& key : ebb::setting_keys()) {
    INFO(key.name);
    std::string bare = key.show(settings{});
    bare.erase(std::remove_if(bare.begin(), bare.end(), [](char c) { return c == '"' || c == '[' || c == ']'; }), bare.end());
    settings all;
    CHECK(key.assign(all, ebb::written_value(ebb::written_value::bare{}, bare)));
    CHECK(all == settings{});
  }
}

TEST_CASE("every key has a name of its own, a reason and a range") {
  std::set<std::string_view> names;
  for (const ebb::setting_key& key : ebb::setting_keys()) {
    INFO(key.name);
    CHECK(names.insert(key.name).second);
    CHECK(key.why.ends_with("."));
    CHECK(!key.allowed.empty());
    CHECK(ebb::find_setting_key(key.name) == &key);
  }
  CHECK(ebb::find_setting_key("listen") == nullptr);
}

TEST_CASE("the keys that may be edited while Ebb runs are those of the caches' sizes") {
  std::set<std::string_view> editable;
  for (const ebb::setting_key& key : ebb::setting_keys()) {
    if (key.editable) editable.insert(key.name);
  }
  CHECK(editable == std::set<std::string_view>{"vram_elastic", "vram_segment_mib", "vram_reserve_mib", "min_free_vram_mib"});
}

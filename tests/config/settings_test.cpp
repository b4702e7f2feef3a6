#include "config/settings.hpp"
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using ebb::card_choice;
using ebb::card_kind;
using ebb::errc;
using ebb::settings;

namespace {

// The settings of a TOML text over the defaults; the test ends here when there is an error.
settings of_toml(std::string_view text) {
  settings all;
  const auto done = ebb::apply_toml(all, text, "test.toml");
  INFO((done ? "" : done.error().text));
  REQUIRE(done);
  return all;
}

ebb::error error_of_toml(std::string_view text) {
  settings all;
  const auto done = ebb::apply_toml(all, text, "test.toml");
  REQUIRE(!done);
  CHECK(all == settings{});
  return done.error();
}

settings of_override(const std::string& argument) {
  settings all;
  const auto done = ebb::apply_overrides(all, {argument});
  INFO((done ? "" : done.error().text));
  REQUIRE(done);
  return all;
}

// A file that is gone when the test ends.
class temporary_file {
 public:
  explicit temporary_file(std::string_view text) {
    char name[] = "/tmp/ebb-settings-XXXXXX";
    const int descriptor = mkstemp(name);
    REQUIRE(descriptor >= 0);
    path_ = name;
    std::ofstream(path_) << text;
  }
  ~temporary_file() { std::filesystem::remove(path_); }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("without any source the settings are the defaults") {
  const auto all = ebb::load_settings({});
  REQUIRE(all);
  CHECK(*all == settings{});
}

TEST_CASE("a file is overridden by the environment, and both by the command line") {
  const temporary_file file("parallel = 2\ncontext = 1024\nthreads = 3\n");
  const auto all = ebb::load_settings({file.path(), {{"EBB_PARALLEL", "5"}, {"EBB_CONTEXT", "2048"}}, {"parallel=7"}});
  REQUIRE(all);
  CHECK(all->parallel == 7);
  CHECK(all->context == 2048);
  CHECK(all->threads == 3);
}

TEST_CASE("a settings file that is missing or a folder is refused by name") {
  const auto missing = ebb::load_settings({"/nonexistent/ebb.toml", {}, {}});
  REQUIRE(!missing);
  CHECK(missing.error().code == errc::file_unreadable);
  CHECK(missing.error().text == "/nonexistent/ebb.toml: the settings cannot be read: No such file or directory");
  const auto folder = ebb::load_settings({"/tmp", {}, {}});
  REQUIRE(!folder);
  CHECK(folder.error().text == "/tmp: the settings cannot be read: it is no plain file");
}

TEST_CASE("TOML sets keys at the top and keys of tables") {
  const settings all = of_toml(R"(
    model = "m.gguf"
    cards = ["cuda:0", "cuda:11", "host"]
    layers = [0, 20, 31]
    vram_elastic = false
    vram_reserve_mib = [700, 512, 0]
    [bus]
    listen = ["auto", "tcp://127.0.0.1:5560"]
    [sampling]
    temperature = 0.7
    top_p = 1
    seed = 9223372036854775807
  )");
  CHECK(all.model == "m.gguf");
  CHECK(all.cards == std::vector<card_choice>{{card_kind::cuda, 0}, {card_kind::cuda, 11}, {card_kind::host, 0}});
  CHECK(all.layers == std::vector<std::uint32_t>{0, 20, 31});
  CHECK(!all.vram_elastic);
  CHECK(all.vram_reserve_mib == std::vector<std::uint32_t>{700, 512, 0});
  CHECK(all.bus.listen == std::vector<std::string>{"auto", "tcp://127.0.0.1:5560"});
  CHECK(all.sampling.temperature == 0.7F);
  CHECK(all.sampling.top_p == 1.0F);
  CHECK(all.sampling.seed == 9223372036854775807u);
}

TEST_CASE("a segment may be a fraction of a MiB that is whole in pages") {
  CHECK(of_toml("vram_segment_mib = 0.25").vram_segment_bytes == 256u << 10);
  CHECK(of_toml("vram_segment_mib = 0.00390625").vram_segment_bytes == 4096);
  CHECK(of_toml("vram_segment_mib = 64").vram_segment_bytes == 64u << 20);
  for (const char* wrong : {"0", "0.001", "0.3", "-1", "65537", "nan", "inf", "true", "\"64\""}) {
    INFO(wrong);
    CHECK(error_of_toml(std::string("vram_segment_mib = ") + wrong).code == errc::bad_value);
  }
}

TEST_CASE("a bad value is refused with file, line, key, value and what is allowed") {
  const auto refused = error_of_toml("context = 512\n\nparallel = 0\n");
  CHECK(refused.code == errc::bad_value);
  CHECK(refused.text == "test.toml:3: parallel = 0 is not allowed; allowed: a whole number from 1 to 64");
  CHECK(error_of_toml("[http]\nlisten = 80").text ==
        "test.toml:2: http.listen = 80 is not allowed; allowed: \"address:port\" with a port from 1 to 65535, or \"\" for none");
}

TEST_CASE("values of the wrong type or range are refused") {
  const char* const wrong = GENERATE(
      "parallel = -1", "parallel = 65", "parallel = 1.0", "parallel = \"4\"", "parallel = true", "parallel = [4]", "parallel = 2024-01-01",
      "vram_elastic = 1", "vram_elastic = \"true\"", "model = 3", "model = [\"a\"]", "model = { a = 1 }", "host_card_mib = 16777217",
      "cards = []", "cards = \"gpu\"", "cards = [\"cuda\"]", "cards = [\"cuda:\"]", "cards = [\"cuda:-1\"]", "cards = [\"cuda:1x\"]",
      "cards = [[\"host\"]]", "layers = []", "layers = [1]", "layers = [0, 0]", "layers = [0, 5, 4]", "layers = [0, \"auto\"]",
      "vram_reserve_mib = []", "vram_reserve_mib = -1", "vram_reserve_mib = [1, 2.5]", "bus.listen = []", "bus.listen = \"tcp://\"",
      "bus.listen = \"udp://127.0.0.1:1\"", "http.listen = \"localhost\"", "http.listen = \":80\"", "http.listen = \"a:0\"",
      "http.listen = \"a:65536\"", "http.trusted_origins = [\"example.org\"]", "sampling.temperature = -0.1", "sampling.temperature = nan",
      "sampling.temperature = \"hot\"", "sampling.top_p = 1.5", "sampling.repeat_penalty = 0", "sampling.max_tokens = 0",
      "sampling.seed = -1");
  INFO(wrong);
  CHECK(error_of_toml(wrong).code == errc::bad_value);
}

TEST_CASE("an unknown key is refused with its line and the nearest known one") {
  const auto refused = error_of_toml("# a comment\nvram_reserv_mib = 1\n");
  CHECK(refused.code == errc::unknown_key);
  CHECK(refused.text == "test.toml:2: there is no setting \"vram_reserv_mib\"; did you mean \"vram_reserve_mib\"?");
  CHECK(error_of_toml("[bus]\nlistn = \"auto\"").text == "test.toml:2: there is no setting \"bus.listn\"; did you mean \"bus.listen\"?");
  CHECK(error_of_toml("[zzzzzzzz]").text == "test.toml:1: there is no setting \"zzzzzzzz\"; config/ebb.toml shows all of them");
  CHECK(error_of_toml("bus = 1").code == errc::unknown_key);
  CHECK(error_of_toml("[[bus]]\nlisten = \"auto\"").code == errc::unknown_key);
}

TEST_CASE("text that is no TOML is refused with its line") {
  const auto refused = error_of_toml("parallel = 4\nparallel = = 5\n");
  CHECK(refused.code == errc::malformed);
  CHECK(refused.text.rfind("test.toml:2: this is no TOML: ", 0) == 0);
  CHECK(error_of_toml("parallel = 4\nparallel = 5\n").code == errc::malformed);
  CHECK(error_of_toml("model = \"\xff\"").code == errc::malformed);
}

TEST_CASE("bare text may stand in double quotes, as in a file of settings") {
  settings all;
  REQUIRE(ebb::apply_overrides(all, {"model=\"a b.gguf\"", "state_dir=\"\"", "journal=\"", "bus.listen=\"ipc:///tmp/a\"", "bus.events=[]"}));
  CHECK(all.model == "a b.gguf");
  CHECK(all.state_dir.empty());
  CHECK(all.journal == "\"");
  CHECK(all.bus.listen == std::vector<std::string>{"ipc:///tmp/a"});
  CHECK(all.bus.events.empty());
}

TEST_CASE("the environment sets every kind of value from bare text") {
  settings all;
  REQUIRE(ebb::apply_environment(all, {{"EBB_MODEL", "/models/a, b.gguf"},
                                       {"EBB_CARDS", "host,cuda:1"},
                                       {"EBB_LAYERS", "0,9"},
                                       {"EBB_VRAM_ELASTIC", "false"},
                                       {"EBB_VRAM_SEGMENT_MIB", "0.5"},
                                       {"EBB_BUS_LISTEN", "ipc:///tmp/a"},
                                       {"EBB_HTTP_TRUSTED_ORIGINS", ""},
                                       {"EBB_SAMPLING_TOP_K", "40"}}));
  CHECK(all.model == "/models/a, b.gguf");
  CHECK(all.cards == std::vector<card_choice>{{card_kind::host, 0}, {card_kind::cuda, 1}});
  CHECK(all.layers == std::vector<std::uint32_t>{0, 9});
  CHECK(!all.vram_elastic);
  CHECK(all.vram_segment_bytes == 512u << 10);
  CHECK(all.bus.listen == std::vector<std::string>{"ipc:///tmp/a"});
  CHECK(all.http.trusted_origins.empty());
  CHECK(all.sampling.top_k == 40);
}

TEST_CASE("a bad or unknown variable is refused by its own name") {
  settings all;
  const auto bad = ebb::apply_environment(all, {{"EBB_CONTEXT", "12"}, {"EBB_PARALLEL", "4x"}});
  REQUIRE(!bad);
  CHECK(bad.error().text == "environment: EBB_PARALLEL: parallel = 4x is not allowed; allowed: a whole number from 1 to 64");
  CHECK(all == settings{});
  const auto unknown = ebb::apply_environment(all, {{"EBB_BUS_LISTN", "auto"}});
  REQUIRE(!unknown);
  CHECK(unknown.error().code == errc::unknown_key);
  CHECK(unknown.error().text == "environment: EBB_BUS_LISTN is no setting; did you mean \"EBB_BUS_LISTEN\"?");
}

TEST_CASE("variables that are no settings of ours are left alone") {
  settings all;
  CHECK(ebb::apply_environment(all, {{"EBB_ISA", "avx2"}, {"EBB_TEST_QUICK", "1"}, {"PATH", "/bin"}, {"EBBTIDE", "1"}}));
  CHECK(all == settings{});
}

TEST_CASE("ebb_environment sees the variables that begin with EBB_ and no others") {
  REQUIRE(setenv("EBB_TEST_SEEN", "a=b", 1) == 0);
  const ebb::environment seen = ebb::ebb_environment();
  REQUIRE(unsetenv("EBB_TEST_SEEN") == 0);
  CHECK(seen.at("EBB_TEST_SEEN") == "a=b");
  CHECK(seen.count("PATH") == 0);
}

TEST_CASE("the command line sets keys, the last of two alike, and a value may hold an equals sign") {
  settings all;
  REQUIRE(ebb::apply_overrides(all, {"parallel=2", "parallel=3", "model=a=b.gguf", "cards=auto"}));
  CHECK(all.parallel == 3);
  CHECK(all.model == "a=b.gguf");
  CHECK(all.cards.empty());
}

TEST_CASE("an argument that is no key=value, or names no key, is refused and changes nothing") {
  settings all;
  const auto bare = ebb::apply_overrides(all, {"parallel=2", "threads"});
  REQUIRE(!bare);
  CHECK(bare.error().text == "command line: \"threads\" sets nothing; allowed: key=value, such as parallel=2");
  const auto unknown = ebb::apply_overrides(all, {"thread=2"});
  REQUIRE(!unknown);
  CHECK(unknown.error().text == "command line: there is no setting \"thread\"; did you mean \"threads\"?");
  CHECK(all == settings{});
}

TEST_CASE("a list on the command line may be written with commas alone or as in TOML") {
  for (const char* written : {"cards=host,cuda:1", "cards=[\"host\", \"cuda:1\"]", "cards=[\"host\",\"cuda:1\"]", "cards=[host, cuda:1]"}) {
    settings all;
    INFO(written);
    REQUIRE(ebb::apply_overrides(all, {written}));
    CHECK(all.cards == std::vector<card_choice>{{card_kind::host, 0}, {card_kind::cuda, 1}});
  }
}

TEST_CASE("a number of stages or reserves that does not fit the cards is refused") {
  const auto refusal = [](std::vector<std::string> overrides) {
    const auto all = ebb::load_settings({{}, {}, std::move(overrides)});
    REQUIRE(!all);
    CHECK(all.error().code == errc::bad_value);
    return all.error().text;
  };
  CHECK(refusal({"cards=host,host", "layers=0"}) ==
        "layers has 1 stage, but cards has 2 cards; allowed: \"auto\", or one first layer a card");
  CHECK(refusal({"cards=host", "vram_reserve_mib=1,2"}) ==
        "vram_reserve_mib has 2 numbers, but cards has 1 card; allowed: \"auto\", one number for all, or one a card");
  CHECK(ebb::load_settings({{}, {}, {"cards=host,host", "layers=0,4", "vram_reserve_mib=7"}}));
  CHECK(ebb::load_settings({{}, {}, {"layers=0,4", "vram_reserve_mib=7,8,9"}}));
}

TEST_CASE("the automatic segment and reserve depend on the kind of the card") {
  const settings automatic;
  CHECK(segment_bytes(automatic, card_kind::cuda) == 64u << 20);
  CHECK(segment_bytes(automatic, card_kind::host) == 1u << 20);
  CHECK(reserve_mib(automatic, card_kind::cuda, 3) == 700);
  CHECK(reserve_mib(automatic, card_kind::host, 3) == 0);
}

TEST_CASE("one reserve counts for every card, several for one card each") {
  const settings one = of_override("vram_reserve_mib=7");
  CHECK(reserve_mib(one, card_kind::cuda, 0) == 7);
  CHECK(reserve_mib(one, card_kind::host, 5) == 7);
  const settings each = of_override("vram_reserve_mib=7,9");
  CHECK(reserve_mib(each, card_kind::host, 0) == 7);
  CHECK(reserve_mib(each, card_kind::host, 1) == 9);
  CHECK(segment_bytes(of_override("vram_segment_mib=2"), card_kind::cuda) == 2u << 20);
}

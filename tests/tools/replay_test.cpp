// Journals fed to an engine again. `tools_test "[.record]"` makes those of tests/replay/ anew (docs/JOURNAL.md, Replay).
#include "tools/replay.hpp"
#include "bus/journal_reader.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include "tests/tools/support/child_process.hpp"
#include "tests/tools/support/replay_scripts.hpp"
#include "tools/daemon.hpp"
#include "tools/journal_state.hpp"
#include "tools/replay_masks.hpp"
#include "tools/reply_fields.hpp"
#include <fstream>
#include <nlohmann/json.hpp>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

namespace {

const std::filesystem::path folder = std::filesystem::path(EBB_SOURCE_DIR) / "tests/replay";

std::filesystem::path journal_of(const std::string& name) { return folder / (name + ".journal"); }

replay_report replayed(const std::filesystem::path& journal) {
  auto report = replay(journal, in_virtual_time(EBB_DEMO_MODEL, ""));
  if (!report) throw std::runtime_error(report.error().text);
  return *report;
}

std::string described(const replay_report& report) {
  std::string out;
  for (const auto& each : report.differences) {
    out += "record " + std::to_string(each.record) + ", id " + bus::to_string(each.id) + ", " + each.field + ": " + each.recorded + " -> " + each.replayed + "\n";
  }
  return out;
}

std::vector<bus::journal_record> records_of(const std::filesystem::path& journal) {
  auto reader = bus::journal_reader::open(journal);
  if (!reader) throw std::runtime_error(reader.error().text);
  std::vector<bus::journal_record> all;
  for (;;) {
    auto record = reader->next();
    if (!record) throw std::runtime_error(record.error().text);
    if (!*record) return all;
    all.push_back(std::move(**record));
  }
}

bus::bytes bytes_of(const std::vector<bus::journal_record>& records) {
  bus::bytes all;
  for (const auto& each : records) {
    const auto bytes = bus::encode_journal_record(each);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

void write(const std::filesystem::path& file, bus::bytes_view content) {
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

// The number of the first recorded reply of this type, 1 first.
std::size_t reply_of_type(const std::vector<bus::journal_record>& records, const std::string& type) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto* message = std::get_if<bus::journal_message>(&records[i]);
    if (message == nullptr || message->direction != bus::journal_direction::out) continue;
    const auto reply = read_reply_frame(message->frame);
    if (reply && reply->type == type) return i + 1;
  }
  throw std::runtime_error("no reply of type " + type);
}

// Replaces the first `from` in a frame by `to`, of the same length.
void change(bus::bytes& frame, std::string_view from, std::string_view to) {
  const auto begin = bus::as_text(frame).find(from);
  REQUIRE(begin != std::string_view::npos);
  std::transform(to.begin(), to.end(), frame.begin() + static_cast<std::ptrdiff_t>(begin), [](char letter) { return static_cast<std::byte>(letter); });
}

}  // namespace

TEST_CASE("record the journals of tests/replay", "[.record]") {
  // `status` shows the model as it was named, and no journal may name a path of this machine.
  std::filesystem::current_path(EBB_SOURCE_DIR);
  std::filesystem::create_directories(folder);
  for (const replay_script& script : replay_scripts()) {
    INFO(script.name);
    recording to(journal_of(script.name), script.settings, "model/demo/chapbook-q4_k_m.gguf");
    script.play(to);
  }
}

TEST_CASE("each recorded conversation, replayed, gets the recorded replies") {
  for (const replay_script& script : replay_scripts()) {
    DYNAMIC_SECTION(script.name) {
      const auto report = replayed(journal_of(script.name));
      CHECK(described(report) == "");
      CHECK(report.differences_all == 0);
      CHECK(report.runs == 1);
      CHECK(report.requests > 0);
      CHECK(report.replies > 10);
      CHECK_FALSE(report.torn);
    }
  }
}

TEST_CASE("the recorded journals name no path of a machine") {
  for (const replay_script& script : replay_scripts()) {
    INFO(script.name);
    const std::string content = content_of(journal_of(script.name));
    CHECK(content.find("/home/") == std::string::npos);
    CHECK(content.find(EBB_SOURCE_DIR) == std::string::npos);
  }
}

TEST_CASE("recorded again from its script, a conversation gets the same replies") {
  const bus::test::temporary_folder here;
  const replay_script& script = replay_scripts()[2];
  {
    recording to(here / "again.journal", script.settings, EBB_DEMO_MODEL);
    script.play(to);
  }
  const auto first = records_of(journal_of(script.name));
  const auto second = records_of(here / "again.journal");
  REQUIRE(first.size() == second.size());
  for (std::size_t i = 1; i < first.size(); ++i) {
    const auto& a = std::get<bus::journal_message>(first[i]);
    const auto& b = std::get<bus::journal_message>(second[i]);
    INFO("record " << i + 1);
    CHECK(a.direction == b.direction);
    CHECK(a.client == b.client);
    CHECK(a.stamp == b.stamp);
  }
}

TEST_CASE("one byte that was changed in a recorded reply is a difference at that record") {
  const bus::test::temporary_folder here;
  const auto original = records_of(journal_of("two_clients"));
  struct alteration {
    std::string type, from, to, field;
  };
  for (const alteration& each : {alteration{"done", "length", "lengti", "finish"}, alteration{"cards", "host", "hosu", "cards/0/kind"}}) {
    INFO(each.type);
    auto records = original;
    const std::size_t number = reply_of_type(records, each.type);
    change(std::get<bus::journal_message>(records[number - 1]).frame, each.from, each.to);
    write(here / "changed.journal", bytes_of(records));
    const auto report = replayed(here / "changed.journal");
    REQUIRE(report.differences.size() == 1);
    const auto& found = report.differences[0];
    CHECK(found.record == number);
    CHECK(found.field == each.field);
    CHECK(found.recorded == "\"" + each.to + "\"");
    CHECK(found.replayed == "\"" + each.from + "\"");
  }
}

TEST_CASE("a reply that was left out of a journal, and one put in, are differences") {
  const bus::test::temporary_folder here;
  const auto renumbered = [&](std::vector<bus::journal_record> records) {
    for (std::size_t i = 1; i < records.size(); ++i) std::get<bus::journal_message>(records[i]).stamp.sequence = i;
    write(here / "changed.journal", bytes_of(records));
    return replayed(here / "changed.journal");
  };
  auto fewer = records_of(journal_of("bad_messages"));
  const std::size_t cards = reply_of_type(fewer, "cards");
  auto more = fewer;
  fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(reply_of_type(fewer, "error") - 1));
  CHECK(renumbered(fewer).differences_all > 0);
  more.insert(more.begin() + static_cast<std::ptrdiff_t>(cards), more[cards - 1]);
  const auto report = renumbered(more);
  REQUIRE(report.differences.size() == 1);
  CHECK(report.differences[0].record == cards + 1);
  CHECK(report.differences[0].field == "reply");
  CHECK(report.differences[0].replayed == "none");
}

TEST_CASE("a journal that is cut in its middle is replayed up to there, and says so") {
  const bus::test::temporary_folder here;
  auto content = bytes_of(records_of(journal_of("two_clients")));
  const auto whole = replayed(journal_of("two_clients"));
  content.resize(content.size() / 2);
  write(here / "cut.journal", content);
  const auto report = replayed(here / "cut.journal");
  REQUIRE(report.torn);
  CHECK(report.torn->code == errc::truncated);
  CHECK(described(report) == "");
  CHECK(report.replies > 10);
  CHECK(report.replies < whole.replies);
}

TEST_CASE("a journal of two runs is replayed as two, each with an engine of its own") {
  const bus::test::temporary_folder here;
  auto records = records_of(journal_of("repeated_ids"));
  const auto second = records_of(journal_of("short_of"));
  records.insert(records.end(), second.begin(), second.end());
  write(here / "both.journal", bytes_of(records));
  const auto report = replayed(here / "both.journal");
  CHECK(described(report) == "");
  CHECK(report.runs == 2);
  CHECK(report.replies == replayed(journal_of("repeated_ids")).replies + replayed(journal_of("short_of")).replies);
}

TEST_CASE("requests that came before the model was there are passed over, and counted") {
  const auto report = replayed(journal_of("load_and_stop"));
  CHECK(report.passed_over == 2);
}

TEST_CASE("what is no journal, or none that can be read, is an error") {
  const bus::test::temporary_folder here;
  const auto code_of = [&](const std::filesystem::path& journal, const std::string& model) {
    const auto report = replay(journal, in_virtual_time(model, ""));
    REQUIRE_FALSE(report);
    return report.error().code;
  };
  CHECK(code_of(here / "missing.journal", EBB_DEMO_MODEL) == errc::file_unreadable);
  write(here / "text.journal", bus::as_bytes("this is no journal at all, but some text"));
  CHECK(code_of(here / "text.journal", EBB_DEMO_MODEL) == errc::corrupt);
  write(here / "empty.journal", {});
  CHECK(code_of(here / "empty.journal", EBB_DEMO_MODEL) == errc::corrupt);
  CHECK(code_of(journal_of("cancels"), "") == errc::missing_key);
}

TEST_CASE("a mask leaves out times always, and what depends on the moment only where moments do not repeat") {
  CHECK(is_masked("done", "took_ms", true, false));
  CHECK(is_masked("done", "took_ms", false, false));
  CHECK_FALSE(is_masked("done", "hit_rate", true, false));
  CHECK(is_masked("done", "hit_rate", false, false));
  CHECK_FALSE(is_masked("done", "hash", true, true));
  CHECK_FALSE(is_masked("done", "hash", false, false));
  CHECK(is_masked("done", "hash", false, true));
  CHECK_FALSE(is_masked("vram", "reserve_mib", false, true));
  CHECK(is_masked("status", "prompt_tokens", false, false));
  CHECK(is_masked("STATUS", "prompt_tokens", false, false));
  CHECK_FALSE(is_masked("status", "prompt_tokens", true, false));
  CHECK_FALSE(is_masked("done", "prompt_tokens", false, true));
  CHECK(is_masked("experts", "resident", false, false));
  CHECK_FALSE(is_masked("cards", "resident", false, false));
}

TEST_CASE("the fields of a text reply are compared by their names") {
  const auto reply = read_reply_frame(bus::as_bytes("CARDS device=0 kind=\"a b\" took_ms=1.5\nCARDS-DONE"));
  REQUIRE(reply);
  CHECK(reply->text);
  CHECK(reply->last);
  CHECK(reply->fields.at("line 0/device") == "0");
  CHECK(reply->fields.at("line 0/kind") == "\"a b\"");
  CHECK(reply->fields.at("line 0/took_ms") == "1.5");
  CHECK(reply->fields.at("line 1/0") == "CARDS-DONE");
  CHECK(field_name("line 0/took_ms") == "took_ms");
  CHECK(field_name("endpoints/3") == "endpoints");
  CHECK(field_name("cards/0/took_ms") == "took_ms");
}

TEST_CASE("what a daemon has written is replayed in virtual time, and by another daemon, with the same replies") {
  const bus::test::temporary_folder here;
  const auto options_in = [&](const std::string& name) {
    engine_options options = demo_on(1);
    options.from.bus.listen = {"ipc://" + (here / (name + ".commands")).string()};
    options.from.state_dir = (here / (name + ".state")).string();
    return options;
  };
  {
    engine_options recorded = options_in("recorded");
    recorded.from.journal = (here / "daemon.journal").string();
    auto daemon = tools::daemon::start(recorded);
    REQUIRE(daemon);
    auto ann = connect_to_daemon(recorded.from.bus.listen[0]);
    auto ben = connect_to_daemon(recorded.from.bus.listen[0]);
    REQUIRE((ann && ben));
    const bus::request_id id = fresh_id();
    REQUIRE((*ann)->send({id, false, greedy(40)}));
    for (int i = 0; i < 10; ++i) REQUIRE((*ann)->receive(patience));
    static_cast<void>(answer_of<bus::vram_report>(**ben, bus::vram{100000, 0}));
    static_cast<void>(answer_of<bus::cards_report>(**ben, bus::cards{}));
    while (!(*ann)->receive(patience).value().last()) {
    }
    const bus::request_id long_one = fresh_id();
    REQUIRE((*ann)->send({long_one, false, greedy(200)}));
    for (int i = 0; i < 5; ++i) REQUIRE((*ann)->receive(patience));
    static_cast<void>(answer_of<bus::cancelled>(**ann, bus::cancel{long_one}));
    static_cast<void>(answer_of<bus::vram_report>(**ben, bus::vram{std::nullopt, std::nullopt}));
    static_cast<void>(answer_of<bus::status_report>(**ben, bus::status{}));
    child_process holder({"/bin/sleep", "1000"});  // ends with the recording
    bus::lease held = scripts::acquire(2, 600);
    held.pid = static_cast<std::uint32_t>(holder.pid());
    CHECK(answer_of<bus::lease_report>(**ben, held).leases.at(0).pid == held.pid);
    static_cast<void>(answer_of<bus::lease_report>(**ben, scripts::about("release", 1)));
  }
  const auto in_process = replayed(here / "daemon.journal");
  CHECK(described(in_process) == "");
  CHECK(in_process.replies > 40);

  const engine_options other = options_in("other");
  auto daemon = tools::daemon::start(other);
  REQUIRE(daemon);
  const auto told = run_program({EBB_PROGRAM, "replay", (here / "daemon.journal").string(), "--connect", other.from.bus.listen[0]});
  INFO(told.out << told.err);
  CHECK(told.code == 0);
  CHECK_THAT(told.out, Catch::Contains(" 0 differences"));
}

TEST_CASE("the leases and reserves that a daemon kept from an earlier one are in its journal, and a replay begins with them") {
  const bus::test::temporary_folder here;
  engine_options options = demo_on(1);
  options.from.bus.listen = {"ipc://" + (here / "commands").string()};
  options.from.state_dir = (here / "state").string();
  const auto with_daemon = [&](const auto& ask) {
    auto daemon = tools::daemon::start(options);
    REQUIRE(daemon);
    auto client = connect_to_daemon(options.from.bus.listen[0]);
    REQUIRE(client);
    ask(**client);
  };
  with_daemon([](connection& ann) {
    bus::lease asked = scripts::acquire(6, 600);
    asked.pid = static_cast<std::uint32_t>(::getpid());
    static_cast<void>(answer_of<bus::lease_report>(ann, asked));
    static_cast<void>(answer_of<bus::vram_report>(ann, bus::vram{3, 0}));
  });
  options.from.journal = (here / "daemon.journal").string();
  with_daemon([](connection& ann) {
    CHECK(answer_of<bus::lease_report>(ann, scripts::list()).leases.size() == 1);
    CHECK(answer_of<bus::vram_report>(ann, bus::vram{4, 0}).cards[0].reserve_mib == 4);
    static_cast<void>(answer_of<bus::lease_report>(ann, scripts::about("release", 1)));
  });
  const auto again = replayed(here / "daemon.journal");
  CHECK(described(again) == "");
  CHECK(again.replies == 3);
}

TEST_CASE("a kept state in a journal's header that cannot be read is an error that says so") {
  const auto error_for = [](const std::string& state) {
    const auto read = state_in({{"state", state}});
    REQUIRE_FALSE(read);
    return read.error().text;
  };
  CHECK(error_for("{") == "the header's state is no JSON");
  CHECK_THAT(error_for("{\"v\":1}"), Catch::Contains("the header's state") && Catch::Contains("cards"));
  CHECK_FALSE(state_in({})->has_value());
}

TEST_CASE("ebb replay says by its exit code whether the replies were the same") {
  const bus::test::temporary_folder here;
  const auto ask = [](std::vector<std::string> words) {
    words.insert(words.begin(), {EBB_PROGRAM, "replay"});
    return run_program(std::move(words));
  };
  const auto same = ask({journal_of("short_of").string(), "--model", EBB_DEMO_MODEL});
  INFO(same.out << same.err);
  CHECK(same.code == 0);
  CHECK_THAT(same.out, Catch::Contains(" 0 differences"));

  auto records = records_of(journal_of("short_of"));
  const std::size_t number = reply_of_type(records, "cards");
  change(std::get<bus::journal_message>(records[number - 1]).frame, "host", "hosu");
  write(here / "changed.journal", bytes_of(records));
  const auto differs = ask({(here / "changed.journal").string(), "--model", EBB_DEMO_MODEL, "--json"});
  CHECK(differs.code == 1);
  const auto told = nlohmann::json::parse(differs.out);
  REQUIRE(told.at("differences").size() == 1);
  CHECK(told.at("differences")[0].at("record") == number);
  CHECK(told.at("differences")[0].at("client") == "62656e");
  CHECK(told.at("differences")[0].at("field") == "cards/0/kind");

  CHECK(ask({(here / "missing.journal").string(), "--model", EBB_DEMO_MODEL}).code == 2);
  CHECK(ask({journal_of("short_of").string()}).code == 2);
  CHECK(ask({journal_of("short_of").string(), "--connect", "ipc://" + (here / "nobody").string()}).code == 3);
}

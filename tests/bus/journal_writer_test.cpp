// What ends up in the file, whatever the disk and other programs do.
#include "bus/journal_writer.hpp"
#include "bus/journal_tear.hpp"
#include "tests/bus/support/journal_files.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <sys/resource.h>
#include <sys/stat.h>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;
using std::chrono::nanoseconds;

const client_id alice{"alice"};

// Time that goes on by 1 with each look.
journal_options example_options() {
  journal_options options;
  options.header = {"0.1.0", nanoseconds(5), {{"model", "a.gguf"}}};
  options.now = [time = 0]() mutable { return nanoseconds(++time); };
  return options;
}

std::unique_ptr<journal_writer> opened(const std::filesystem::path& path, journal_options options = example_options()) {
  auto writer = journal_writer::open(path, std::move(options));
  if (!writer) FAIL(writer.error().text);
  return std::move(*writer);
}

std::string refusal_of(const std::filesystem::path& path, errc code) {
  const auto writer = journal_writer::open(path, example_options());
  REQUIRE_FALSE(writer);
  CHECK(to_string(writer.error().code) == to_string(code));
  return writer.error().text;
}

journal_message message(std::uint64_t sequence, journal_direction direction, std::string_view text) {
  return {{sequence, nanoseconds(sequence)}, direction, alice, {as_bytes(text).begin(), as_bytes(text).end()}};
}

std::vector<journal_record> whole_journal(const std::filesystem::path& path) {
  journal_read got = read_journal(path);
  if (got.wrong) FAIL(got.wrong->text);
  return std::move(got.records);
}

// A journal of a header and a message, as a run leaves it.
std::vector<journal_record> write_run(const std::filesystem::path& path) {
  opened(path)->append(journal_direction::in, alice, as_bytes("STATUS"));
  return {example_options().header, message(1, journal_direction::in, "STATUS")};
}

unsigned mode_of(const std::filesystem::path& path) {
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  return found.st_mode & 07777;
}

// No file may grow beyond `size_bytes` while it lives: a full disk, for this process alone.
class full_disk {
 public:
  explicit full_disk(std::size_t size_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit small = before_;
    small.rlim_cur = size_bytes;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  }
  ~full_disk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("what is appended is in the file, in order, once the writer has ended") {
  const temporary_folder folder;
  {
    const auto writer = opened(folder / "j");
    writer->append(journal_direction::in, alice, as_bytes("STATUS"));
    writer->append(journal_direction::out, alice, as_bytes("STATUS-DONE"));
    writer->append_gone(alice);
    CHECK(writer->healthy());
  }
  CHECK(whole_journal(folder / "j") == std::vector<journal_record>{example_options().header, message(1, journal_direction::in, "STATUS"),
                                                                   message(2, journal_direction::out, "STATUS-DONE"),
                                                                   journal_gone{{3, nanoseconds(3)}, alice}});
}

TEST_CASE("flush returns when all that was appended before can be read") {
  const temporary_folder folder;
  const auto writer = opened(folder / "j");
  writer->flush();
  CHECK(whole_journal(folder / "j").size() == 1);
  for (std::size_t count = 1; count < 50; ++count) {
    writer->append(journal_direction::in, alice, as_bytes("STATUS"));
    writer->flush();
    REQUIRE(whole_journal(folder / "j").size() == count + 1);
  }
}

TEST_CASE("what is appended is in the file soon, without a flush") {
  const temporary_folder folder;
  const auto writer = opened(folder / "j");
  writer->append(journal_direction::in, alice, as_bytes("STATUS"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (whole_journal(folder / "j").size() < 2) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_CASE("messages of several threads are all there, each thread's in its order, with times that never fall") {
  constexpr std::uint32_t thread_count = 4, messages_each = 2000;
  const temporary_folder folder;
  {
    const auto writer = opened(folder / "j");
    std::vector<std::thread> threads;
    for (std::uint32_t index = 0; index < thread_count; ++index) {
      threads.emplace_back([&writer, who = client_id{std::to_string(index)}] {
        for (std::uint32_t number = 0; number < messages_each; ++number) {
          writer->append(journal_direction::out, who, as_bytes(std::to_string(number)));
        }
      });
    }
    for (std::thread& each : threads) each.join();
  }
  const auto records = whole_journal(folder / "j");
  CHECK(records.size() == 1 + thread_count * messages_each);
  std::map<client_id, std::uint32_t> due;
  nanoseconds last{0};
  for (std::size_t index = 1; index < records.size(); ++index) {
    const auto& each = std::get<journal_message>(records[index]);
    REQUIRE(as_text(each.frame) == std::to_string(due[each.client]++));
    REQUIRE(each.stamp.at > last);
    last = each.stamp.at;
  }
}

TEST_CASE("a message that finds no room is counted in its place") {
  const temporary_folder folder;
  journal_options options = example_options();
  options.queue_bytes_max = 1024;
  {
    const auto writer = opened(folder / "j", std::move(options));
    writer->append(journal_direction::in, alice, as_bytes("before"));
    writer->flush();
    writer->append(journal_direction::in, alice, bytes(1025));
    writer->flush();
    writer->append(journal_direction::in, alice, as_bytes("after"));
  }
  const auto records = whole_journal(folder / "j");
  REQUIRE(records.size() == 4);
  CHECK(as_text(std::get<journal_message>(records[1]).frame) == "before");
  CHECK(std::get<journal_lost>(records[2]).count == 1);
  CHECK(as_text(std::get<journal_message>(records[3]).frame) == "after");
}

TEST_CASE("what is in the file and what it says is lost add up to all that was appended, however slow the disk") {
  constexpr std::uint32_t message_count = 20'000, too_large_count = message_count / 1000;
  constexpr std::size_t queue_bytes = 16 << 10;
  const temporary_folder folder;
  journal_options options = example_options();
  options.queue_bytes_max = queue_bytes;
  {
    const auto writer = opened(folder / "j", std::move(options));
    for (std::uint32_t number = 0; number < message_count; ++number) {
      writer->append(journal_direction::out, alice, as_bytes(std::to_string(number)));
      if (number % 1000 == 0) writer->append(journal_direction::out, alice, bytes(queue_bytes));  // never finds room
    }
  }
  std::uint64_t found = 0, lost = 0;
  std::int64_t last = -1;
  for (const journal_record& each : whole_journal(folder / "j")) {
    if (const auto* gap = std::get_if<journal_lost>(&each)) lost += gap->count;
    if (const auto* message = std::get_if<journal_message>(&each)) {
      ++found;
      const std::int64_t number = std::stoll(std::string(as_text(message->frame)));
      REQUIRE(number > last);
      last = number;
    }
  }
  CHECK(found + lost == message_count + too_large_count);
  CHECK(lost >= too_large_count);
}

TEST_CASE("a frame larger than any on the bus is counted as lost") {
  const temporary_folder folder;
  {
    const auto writer = opened(folder / "j");
    writer->append(journal_direction::out, alice, bytes(limits::journal_record_bytes_max));
    writer->flush();
    writer->append(journal_direction::out, alice, bytes(limits::message_bytes_max));
  }
  const auto records = whole_journal(folder / "j");
  REQUIRE(records.size() == 3);
  CHECK(std::get<journal_lost>(records[1]).count == 1);
  CHECK(std::get<journal_message>(records[2]).frame.size() == limits::message_bytes_max);
}

TEST_CASE("the file is for its owner alone, also one that was there") {
  const temporary_folder folder;
  static_cast<void>(opened(folder / "new"));
  CHECK(mode_of(folder / "new") == 0600);
  write_file(folder / "old", "");
  REQUIRE(::chmod((folder / "old").c_str(), 0644) == 0);
  static_cast<void>(opened(folder / "old"));
  CHECK(mode_of(folder / "old") == 0600);
}

TEST_CASE("a journal that is there is continued with a header of its own") {
  const temporary_folder folder;
  auto both = write_run(folder / "j");
  const auto second = write_run(folder / "j");
  both.insert(both.end(), second.begin(), second.end());
  CHECK(whole_journal(folder / "j") == both);
  CHECK(opened(folder / "j")->cut_bytes() == 0);
}

TEST_CASE("a journal torn at any byte after its header is continued after its last whole record") {
  const temporary_folder folder;
  const auto run = write_run(folder / "j");
  const std::string whole = file_bytes(folder / "j");
  const std::size_t header_bytes = encode_journal_record(run[0]).size();
  for (std::size_t cut = header_bytes; cut < whole.size(); ++cut) {
    CAPTURE(cut);
    write_file(folder / "j", whole.substr(0, cut));
    CHECK(opened(folder / "j")->cut_bytes() == cut - header_bytes);
    CHECK(whole_journal(folder / "j") == std::vector<journal_record>{run[0], run[0]});
  }
}

TEST_CASE("a journal that ends in zeros, as a lost power leaves it, is continued after its last whole record") {
  const temporary_folder folder;
  const auto run = write_run(folder / "j");
  const std::string whole = file_bytes(folder / "j");
  const std::size_t header_bytes = encode_journal_record(run[0]).size();
  for (const std::size_t zeros : {std::size_t{1}, std::size_t{50}, std::size_t{4096}, journal_torn_bytes_max}) {
    CAPTURE(zeros);
    write_file(folder / "j", whole + std::string(zeros, '\0'));
    CHECK(opened(folder / "j")->cut_bytes() == zeros);
    CHECK(whole_journal(folder / "j") == std::vector<journal_record>{run[0], run[1], run[0]});
  }
  for (std::size_t cut = header_bytes; cut < whole.size(); ++cut) {
    CAPTURE(cut);
    write_file(folder / "j", whole.substr(0, cut) + std::string(4096, '\0'));
    CHECK(opened(folder / "j")->cut_bytes() == cut - header_bytes + 4096);
    CHECK(whole_journal(folder / "j") == std::vector<journal_record>{run[0], run[0]});
  }
}

TEST_CASE("a journal torn within its first header, or all zeros, is begun anew") {
  const temporary_folder folder;
  const auto run = write_run(folder / "j");
  const std::string whole = file_bytes(folder / "j");
  const std::size_t header_bytes = encode_journal_record(run[0]).size();
  std::vector<std::string> torn{std::string(1, '\0'), std::string(100, '\0'), std::string(70'000, '\0')};
  for (std::size_t cut = 4; cut < header_bytes; ++cut) {
    torn.push_back(whole.substr(0, cut));
    torn.push_back(whole.substr(0, cut) + std::string(500, '\0'));
  }
  for (const std::string& content : torn) {
    CAPTURE(content);
    write_file(folder / "j", content);
    CHECK(opened(folder / "j")->cut_bytes() == content.size());
    CHECK(whole_journal(folder / "j") == std::vector<journal_record>{run[0]});
  }
}

TEST_CASE("a file that is no journal, or a damaged one, is refused and left as it is") {
  const temporary_folder folder;
  write_run(folder / "whole");
  const std::string whole = file_bytes(folder / "whole");
  std::string damaged = whole;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  std::string other_payload = whole.substr(0, 20);
  other_payload[10] = 'E';
  const std::string zeros(4096, '\0');
  for (const std::string& content : {std::string("GGUF and more"), std::string("x"), std::string("12\n"), std::string("GGUF") + zeros, other_payload, damaged,
                                     damaged + zeros, whole + zeros + "x", whole + std::string(4, '\0') + "more", other_payload + zeros,
                                     std::string(journal_torn_bytes_max + 1, '\0'), whole + std::string(journal_torn_bytes_max + 1, '\0'),
                                     encoded({message(1, journal_direction::in, "STATUS")})}) {
    write_file(folder / "j", content);
    CHECK_THAT(refusal_of(folder / "j", errc::refused), Catch::EndsWith("; it cannot be continued: move it away, or choose another path"));
    CHECK(file_bytes(folder / "j") == content);
  }
}

TEST_CASE("a journal that another writer appends to is refused") {
  const temporary_folder folder;
  const auto writer = opened(folder / "j");
  CHECK(refusal_of(folder / "j", errc::refused) ==
        "journal " + (folder / "j").string() + ": another daemon appends to it; give this one another path");
}

TEST_CASE("a path where no file can be, or that is none, is refused at once") {
  const temporary_folder folder;
  CHECK_THAT(refusal_of(folder / "none/j", errc::file_unwritable), Catch::EndsWith("cannot open or create it: No such file or directory"));
  CHECK_THAT(refusal_of(folder.path(), errc::file_unwritable), Catch::EndsWith("cannot open or create it: Is a directory"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(refusal_of(folder / "pipe", errc::refused), Catch::EndsWith("it is no regular file; choose another path"));
  CHECK_THAT(refusal_of("/dev/null", errc::refused), Catch::EndsWith("it is no regular file; choose another path"));
}

TEST_CASE("a header that is too large is refused before a file is made") {
  const temporary_folder folder;
  journal_options options = example_options();
  options.header.about["prompt"] = std::string(limits::journal_around_bytes_max, 'x');
  const auto writer = journal_writer::open(folder / "j", options);
  REQUIRE_FALSE(writer);
  CHECK(writer.error().code == errc::too_large);
  CHECK_FALSE(std::filesystem::exists(folder / "j"));
}

TEST_CASE("a full disk ends the journal: said once, with what to do, and what was written stays") {
  const temporary_folder folder;
  std::atomic<int> said = 0;
  std::string text;
  journal_options options = example_options();
  options.on_error = [&](const error& why) {
    ++said;
    text = why.text;
  };
  {
    const auto writer = opened(folder / "j", std::move(options));
    writer->append(journal_direction::in, alice, as_bytes("STATUS"));
    writer->flush();
    const full_disk full(1 << 10);
    writer->append(journal_direction::in, alice, bytes(2 << 10));
    writer->flush();
    CHECK_FALSE(writer->healthy());
    writer->append(journal_direction::in, alice, bytes(2 << 10));
    writer->flush();
  }
  CHECK(said == 1);
  CHECK(text == "journal " + (folder / "j").string() +
                    ": cannot write: File too large; the journal ends here, and messages are served without it: free some space, then "
                    "start again");
  const journal_read got = read_journal(folder / "j");
  CHECK(got.records.size() == 2);
  REQUIRE(got.wrong);
  CHECK(got.wrong->code == errc::truncated);
  CHECK(opened(folder / "j")->cut_bytes() > 0);
  CHECK(whole_journal(folder / "j").size() == 3);
}

TEST_CASE("a disk that is full at once leaves the file as it was") {
  const temporary_folder folder;
  write_run(folder / "j");
  const std::string before = file_bytes(folder / "j");
  {
    const full_disk full(before.size() + 10);
    CHECK_THAT(refusal_of(folder / "j", errc::file_unwritable), Catch::EndsWith("cannot write: File too large"));
  }
  CHECK(file_bytes(folder / "j") == before);
}

TEST_CASE("a journal from now on has the time since its start") {
  const temporary_folder folder;
  opened(folder / "j", journal_from_now("0.1.0", {{"model", "a.gguf"}}))->append(journal_direction::in, alice, {});
  const auto records = whole_journal(folder / "j");
  REQUIRE(records.size() == 2);
  const auto age = std::chrono::system_clock::now().time_since_epoch() - std::get<journal_header>(records[0]).started;
  CHECK(age >= nanoseconds(0));
  CHECK(age < std::chrono::hours(1));
  const nanoseconds at = std::get<journal_message>(records[1]).stamp.at;
  CHECK(at > nanoseconds(0));
  CHECK(at < std::chrono::hours(1));
}

// What a journal's bytes mean, and that nothing but what was written is read from them.
#include "bus/journal_reader.hpp"
#include "config/limits.hpp"
#include "tests/bus/support/journal_files.hpp"
#include "tests/bus/support/pack.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>
#include <unistd.h>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;
using std::chrono::nanoseconds;

bytes as_frame(std::string_view text) { return {as_bytes(text).begin(), as_bytes(text).end()}; }

journal_header example_header() {
  return {"0.1.0", nanoseconds(1'780'000'000'000'000'000), {{"cards", "host, host"}, {"model", "a.gguf"}}};
}

const client_id alice{std::string("\x00\x80\x00\x41\xa7", 5)};

std::vector<journal_record> example_records() {
  return {
      example_header(),
      journal_message{{1, nanoseconds(1000)}, journal_direction::in, alice, as_frame("STATUS")},
      journal_message{{2, nanoseconds(2000)}, journal_direction::out, alice, as_frame(std::string("\x81\xa1v\x00", 4))},
      journal_lost{{3, nanoseconds(2000)}, 70'000},
      journal_gone{{4, nanoseconds(3000)}, alice},
      example_header(),
      journal_message{{1, nanoseconds(0)}, journal_direction::in, {"bob"}, {}},
  };
}

// Read through a pipe, which is how a reader sees what is not a plain file; small enough not to fill it.
journal_read read_bytes(const std::string& content) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  journal_reader reader{file_descriptor(ends[0]), "j"};
  {
    const file_descriptor inlet(ends[1]);
    REQUIRE(::write(inlet.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()));
  }
  return read_all(std::move(reader));
}

// A record around a payload that our own writer would not write.
std::string framed(const std::string& payload) {
  std::string out;
  for (const std::uint32_t number : {static_cast<std::uint32_t>(payload.size()), journal_sum(as_bytes(payload))}) {
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(number >> shift);
  }
  return out + payload;
}

void check_refused(const std::string& payload, errc code, const std::string& text) {
  const std::string before = encoded({example_header()});
  const journal_read got = read_bytes(before + framed(payload));
  CHECK(got.records.size() == 1);
  CHECK(got.whole_bytes == before.size());
  REQUIRE(got.wrong);
  CHECK(to_string(got.wrong->code) == to_string(code));
  CHECK(got.wrong->text == "journal j: read 1 records up to byte " + std::to_string(before.size()) + "; the rest is unreadable: " + text);
}

bool is_beginning(const std::vector<journal_record>& part, const std::vector<journal_record>& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

}  // namespace

TEST_CASE("a journal is read as it was written") {
  const journal_read got = read_bytes(encoded(example_records()));
  CHECK_FALSE(got.wrong);
  CHECK(got.records == example_records());
}

TEST_CASE("any frame of any client is read as it was written") {
  rc::prop("any frame, client, time", [](const std::string& client, const std::string& frame, std::uint32_t at) {
    const std::vector<journal_record> records{example_header(),
                                              journal_message{{1, nanoseconds(at)}, journal_direction::out, {client}, as_frame(frame)}};
    const journal_read got = read_bytes(encoded(records));
    RC_ASSERT(!got.wrong.has_value());
    RC_ASSERT(got.records == records);
  });
}

TEST_CASE("the bytes of a record are those of the documentation") {
  const std::string payload =
      "\x95\xa2in\x01\xcd\x03\xe8\xc4\x03"
      "bob\xc4\x06STATUS";
  CHECK(encoded({journal_message{{1, nanoseconds(1000)}, journal_direction::in, {"bob"}, as_frame("STATUS")}}) == framed(payload));
  CHECK(framed("123456789").substr(0, 4) == std::string("\x09\0\0\0", 4));
}

TEST_CASE("an empty file is a journal without records") {
  const journal_read got = read_bytes("");
  CHECK_FALSE(got.wrong);
  CHECK(got.records.empty());
}

TEST_CASE("a journal cut at any byte is read up to the last whole record, and the rest is called torn") {
  const std::vector<journal_record> records = example_records();
  const std::string whole = encoded(records);
  std::vector<std::size_t> ends{0};
  for (const journal_record& each : records) ends.push_back(ends.back() + encode_journal_record(each).size());
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    CAPTURE(cut);
    const journal_read got = read_bytes(whole.substr(0, cut));
    const auto count = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), cut) - ends.begin()) - 1;
    CHECK(got.records.size() == count);
    CHECK(is_beginning(got.records, records));
    CHECK(got.whole_bytes == ends[count]);
    if (cut == ends[count]) {
      CHECK_FALSE(got.wrong);
      continue;
    }
    REQUIRE(got.wrong);
    CHECK(got.wrong->code == errc::truncated);
    CHECK(got.wrong->text.starts_with("journal j: read " + std::to_string(count) + " records up to byte " + std::to_string(ends[count]) +
                                      "; the rest is torn: the file ends "));
  }
}

TEST_CASE("a journal with any one byte changed gives no record that was not written, and says so") {
  const std::vector<journal_record> records = example_records();
  const std::string whole = encoded(records);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const journal_read got = read_bytes(changed);
      CAPTURE(at, change);
      REQUIRE(got.wrong);
      REQUIRE(is_beginning(got.records, records));
      REQUIRE(got.whole_bytes <= at);
    }
  }
}

TEST_CASE("a tail of zeros, as a lost power leaves it, is no record") {
  const std::string whole = encoded(example_records());
  const journal_read got = read_bytes(whole + std::string(4096, '\0'));
  CHECK(got.records == example_records());
  REQUIRE(got.wrong);
  CHECK(got.wrong->code == errc::corrupt);
  CHECK(got.wrong->text ==
        "journal j: read 7 records up to byte " + std::to_string(whole.size()) + "; the rest is unreadable: a record cannot have 0 bytes");
}

TEST_CASE("a length beyond the largest record is refused before anything is read for it") {
  const journal_read got = read_bytes(encoded({example_header()}) + std::string(8, '\xff'));
  REQUIRE(got.wrong);
  CHECK(got.wrong->code == errc::corrupt);
  CHECK_THAT(got.wrong->text, Catch::EndsWith("a record cannot have 4294967295 bytes"));
}

TEST_CASE("a record that is missing, or there twice, is noticed by its sequence number") {
  auto records = example_records();
  SECTION("missing") { records.erase(records.begin() + 2); }
  SECTION("twice") { records.insert(records.begin() + 2, records[1]); }
  const journal_read got = read_bytes(encoded(records));
  CHECK(got.records.size() == 2);
  REQUIRE(got.wrong);
  CHECK(got.wrong->code == errc::corrupt);
  CHECK_THAT(got.wrong->text, Catch::Contains("instead of 2"));
}

TEST_CASE("a journal that begins without a header is refused") {
  const journal_read got = read_bytes(encoded({example_records()[1]}));
  CHECK(got.records.empty());
  REQUIRE(got.wrong);
  CHECK(got.wrong->text == "journal j: read 0 records up to byte 0; the rest is unreadable: the first record is no header");
}

TEST_CASE("a record of right sum and wrong form is refused by what is wrong") {
  using namespace pack;
  check_refused("\xc1", errc::corrupt, "a record is no msgpack array: byte 0 of the frame begins no msgpack value");
  check_refused(nil(), errc::corrupt, "a record must be a msgpack array, not nil");
  check_refused(list({}), errc::corrupt, "a record cannot be of the kind \"\"");
  check_refused(list({text("inn"), whole(1)}), errc::corrupt, "a record cannot be of the kind \"inn\"");
  check_refused(list({text("gone"), whole(1), whole(0), raw("bob")}) + nil(), errc::corrupt, "after a record's array come 1 bytes");
  const std::string gone = "a record of the kind \"gone\" has not its elements";
  check_refused(list({text("gone"), whole(1), whole(0)}), errc::corrupt, gone);
  check_refused(list({text("gone"), whole(1), whole(0), text("bob")}), errc::corrupt, gone);
  check_refused(list({text("gone"), whole(1), signed_whole(-1), raw("bob")}), errc::corrupt, gone);
  check_refused(list({text("gone"), whole(1), whole(0), raw("bob"), nil()}), errc::corrupt, gone);
  check_refused(list({text("ebb-journal"), whole(1), text("0"), whole(std::uint64_t{1} << 63), map({})}), errc::corrupt,
                "a record of the kind \"ebb-journal\" has not its elements");
  check_refused(list({text("ebb-journal"), whole(1), text("0"), whole(0), map({{"a", text("")}, {"a", text("")}})}), errc::corrupt,
                "a record of the kind \"ebb-journal\" has not its elements");
}

TEST_CASE("a journal of another format is refused by its number") {
  using namespace pack;
  check_refused(list({text("ebb-journal"), whole(2)}), errc::unsupported_version,
                "the journal has format 2, and this version reads format 1; read it with the ebb that wrote it");
}

TEST_CASE("a file that cannot be opened or read is reported with its name") {
  const temporary_folder folder;
  CHECK(read_journal(folder / "none").wrong.value().code == errc::file_unreadable);
  CHECK_THAT(read_journal(folder / "none").wrong.value().text, Catch::Contains("none: cannot open it: No such file"));
  CHECK(read_journal(folder.path()).wrong.value().code == errc::file_unreadable);
}

TEST_CASE("the largest frame is read as it was written") {
  const temporary_folder folder;
  const std::vector<journal_record> records{
      example_header(), journal_message{{1, nanoseconds(0)}, journal_direction::in, alice, bytes(limits::message_bytes_max)},
      journal_message{{2, nanoseconds(0)}, journal_direction::in, alice, as_frame("STATUS")}};
  write_file(folder / "j", encoded(records));
  const journal_read got = read_journal(folder / "j");
  CHECK_FALSE(got.wrong);
  CHECK(got.records == records);
}

TEST_CASE("a record that is skipped is as if it had been read, and the next one is read") {
  const temporary_folder folder;
  const std::vector<journal_record> records = example_records();
  for (std::size_t skips = 0; skips < records.size(); ++skips) {
    write_file(folder / "j", encoded(records));
    auto reader = journal_reader::open(folder / "j");
    REQUIRE(reader);
    for (std::size_t count = 0; count < skips; ++count) CHECK(reader->skip() == true);
    CHECK(reader->records_read() == skips);
    const journal_read rest = read_all(std::move(*reader));
    CHECK_FALSE(rest.wrong);
    CHECK(rest.records == std::vector<journal_record>(records.begin() + static_cast<std::ptrdiff_t>(skips), records.end()));
  }
}

TEST_CASE("skipping ends at the end of a journal, and at a record that is torn or damaged") {
  const std::string header = encoded({example_header()});
  const temporary_folder folder;
  const auto end_of = [&](const std::string& content) {
    write_file(folder / "j", content);
    auto reader = journal_reader::open(folder / "j");
    REQUIRE(reader);
    CHECK(reader->skip() == true);
    const auto skipped = reader->skip();
    CHECK(reader->records_read() == 1);
    return skipped ? errc::none : skipped.error().code;
  };
  CHECK(end_of(header) == errc::none);
  CHECK(end_of(header + header.substr(0, header.size() - 1)) == errc::truncated);
  CHECK(end_of(header + header.substr(0, header.size() - 1) + "x") == errc::corrupt);
}

TEST_CASE("an error stays the answer") {
  const temporary_folder folder;
  write_file(folder / "j", encoded(example_records()) + "torn");
  auto reader = journal_reader::open(folder / "j");
  REQUIRE(reader);
  while (reader->next()) continue;
  const auto again = reader->next();
  REQUIRE_FALSE(again);
  CHECK(again.error().code == errc::truncated);
  CHECK(reader->records_read() == 7);
}

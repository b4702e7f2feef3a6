// docs/JOURNAL.md lets other programs write and read journals: its own Python does both here, as a third party would.
#include "tests/bus/support/journal_files.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include <catch2/catch.hpp>
#include <cstdlib>

namespace {

using namespace ebb::bus;
using namespace ebb::bus::test;
using std::chrono::nanoseconds;

// The Python of the document, then `more`, run with `path` as its argument by the Python that has Debian's python3-msgpack.
int run_python(const temporary_folder& folder, const std::string& more, const std::filesystem::path& path) {
  const std::string document = file_bytes(EBB_SOURCE_DIR "/docs/JOURNAL.md");
  const std::string fence = "```python\n";
  const std::size_t begin = document.find(fence) + fence.size();
  const std::string program = document.substr(begin, document.find("```", begin) - begin);
  REQUIRE(program.starts_with("import msgpack"));
  write_file(folder / "journal.py", program + "\nimport sys\n" + more);
  return std::system(("/usr/bin/python3 " + (folder / "journal.py").string() + " " + path.string()).c_str());
}

std::vector<journal_record> records_of_python() {
  const std::string frame("\x81\xa1v\x01\x00\xff", 6);
  const client_id client{std::string("\x00\x80\xff", 3)};
  return {
      journal_header{"0.1.0", nanoseconds(1'780'000'000'123'456'789), {{"cards", "host"}, {"model", "\xc3\xa9.gguf"}}},
      journal_message{{1, nanoseconds(10)}, journal_direction::in, client, {as_bytes("STATUS").begin(), as_bytes("STATUS").end()}},
      journal_message{{2, nanoseconds(5'000'000'000)}, journal_direction::out, client, {as_bytes(frame).begin(), as_bytes(frame).end()}},
      journal_gone{{3, nanoseconds(5'000'000'001)}, client},
      journal_lost{{4, nanoseconds(5'000'000'002)}, 70'000},
  };
}

const std::string the_same_in_python = R"(
wanted = [
    ["ebb-journal", 1, "0.1.0", 1780000000123456789, {"cards": "host", "model": "\u00e9.gguf"}],
    ["in", 1, 10, b"\x00\x80\xff", b"STATUS"],
    ["out", 2, 5000000000, b"\x00\x80\xff", b"\x81\xa1v\x01\x00\xff"],
    ["gone", 3, 5000000001, b"\x00\x80\xff"],
    ["lost", 4, 5000000002, 70000],
]
)";

}  // namespace

TEST_CASE("a journal written by the documentation's Python is read by ours, and has the same bytes as ours") {
  const temporary_folder folder;
  REQUIRE(run_python(folder, the_same_in_python + R"(
with open(sys.argv[1], "ab") as file:
    for record in wanted:
        append(file, *record)
)",
                     folder / "j") == 0);
  const journal_read got = read_journal(folder / "j");
  CHECK_FALSE(got.wrong);
  CHECK(got.records == records_of_python());
  CHECK(file_bytes(folder / "j") == encoded(records_of_python()));
}

TEST_CASE("a journal written by ours is read by the documentation's Python") {
  const temporary_folder folder;
  write_file(folder / "j", encoded(records_of_python()));
  CHECK(run_python(folder, the_same_in_python + R"(
with open(sys.argv[1], "rb") as file:
    assert list(records(file)) == wanted
)",
                   folder / "j") == 0);
}

TEST_CASE("the documentation's Python reads a journal that is cut or changed at any byte up to there") {
  const temporary_folder folder;
  write_file(folder / "j", encoded(records_of_python()));
  CHECK(run_python(folder, the_same_in_python + R"(
import io
whole = open(sys.argv[1], "rb").read()

def read(content):
    got = []
    try:
        for record in records(io.BytesIO(content)):
            got.append(record)
    except ValueError:
        return got, False
    return got, True

def check(got):
    assert got == wanted[:len(got)]

ends = 0
for cut in range(len(whole) + 1):
    got, good = read(whole[:cut])
    check(got)
    ends += good
assert ends == len(wanted) + 1
for at in range(len(whole)):
    changed = bytearray(whole)
    changed[at] ^= 0xff
    got, good = read(bytes(changed))
    check(got)
    assert not good
)",
                   folder / "j") == 0);
}

#include "bus/http/api_key.hpp"
#include "bus/http/service.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include <catch2/catch.hpp>
#include <fstream>
#include <sys/stat.h>

using namespace ebb;
using namespace ebb::bus::http;

namespace {

struct key_file {
  explicit key_file(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path, std::ios::binary) << text;
    ::chmod(path.c_str(), mode);
  }
  bus::test::temporary_folder folder;
  std::filesystem::path path = folder / "key";
};

std::size_t warnings = 0;
void count(const error& what) {
  ++warnings;
  CHECK_THAT(what.text, Catch::Contains("chmod 600") && !Catch::Contains("correct"));
}

// Nobody is asked anything while a service opens.
class no_daemon final : public bus::command_port {
 public:
  bus::client_id join(std::function<void(const bus::reply&)>) override { return {}; }
  void submit(const bus::client_id&, const bus::request&) override {}
  void leave(const bus::client_id&) override {}
  std::uint64_t listen(std::function<void(const bus::event&)>) override { return 0; }
  void unlisten(std::uint64_t) override {}
};

errc opens(const std::string& listen, const std::string& key = {}) {
  no_daemon daemon;
  service_options options;
  options.running.http.listen = listen;
  options.running.http.api_key_file = key;
  const auto opened = service::open(options, daemon);
  return opened ? errc::none : opened.error().code;
}

}  // namespace

TEST_CASE("a key is one line of its file, and is warned of when others may read it") {
  warnings = 0;
  CHECK(read_api_key(key_file("correct-horse\n").path, count) == "correct-horse");
  CHECK(warnings == 0);
  CHECK(read_api_key(key_file("correct-horse\r\n", 0644).path, count) == "correct-horse");
  CHECK(warnings == 1);
  for (const char* text : {"", "\n", "short", "correct horse", "correct\nhorse", "correct-h\xc3\xb6rse"}) {
    CAPTURE(text);
    const auto read = read_api_key(key_file(text).path, count);
    REQUIRE(!read);
    CHECK(read.error().code == errc::bad_value);
    CHECK_THAT(read.error().text, !Catch::Contains("correct"));
  }
  CHECK(read_api_key("/no/such/file", count).error().code == errc::file_unreadable);
}

TEST_CASE("an address that other machines reach is refused without a key") {
  CHECK(opens("0.0.0.0:0") == errc::refused);
  CHECK(opens("0.0.0.0:0", key_file("correct-horse").path.string()) == errc::none);
  CHECK(opens("127.0.0.1:0") == errc::none);
  CHECK(opens("localhost:0") == errc::none);
  CHECK(opens("127.0.0.1:0", "/no/such/file") == errc::file_unreadable);
}

TEST_CASE("an address that is none, or not this machine's, or taken, is refused by name") {
  for (const char* where : {"", "127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:x", "203.0.113.7:0", "no such host:0"}) {
    CAPTURE(where);
    CHECK(opens(where) == errc::bad_value);
  }
  no_daemon daemon;
  service_options options;
  options.running.http.listen = "127.0.0.1:0";
  const auto first = service::open(options, daemon);
  REQUIRE(first);
  CHECK(opens((*first)->url().substr(7)) == errc::refused);
}

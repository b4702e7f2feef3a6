// Bodies out of the bytes of a connection, in whatever parts they come.
#include "bus/http/body_reader.hpp"
#include "config/limits.hpp"
#include <catch2/catch.hpp>

using namespace ebb;
using namespace ebb::bus::http;

namespace {

struct read_body {
  std::string body;
  std::string next;  // bytes that are another request's
  int status = 0;    // 0: whole; 1: more is needed
};

read_body read_in_parts(const request_head& head, const std::string& bytes, std::size_t part) {
  read_body out;
  body_reader reader(head);
  for (std::size_t at = 0; at < bytes.size(); at += part) {
    out.next += bytes.substr(at, part);
    const auto whole = reader.take(out.next, out.body);
    out.status = !whole ? whole.error().status : *whole ? 0 : 1;
    if (!whole) return out;
  }
  return out;
}

request_head chunked() {
  request_head out;
  out.chunked = true;
  return out;
}

}  // namespace

TEST_CASE("chunks make the same body in whatever parts they arrive, and a trailer or an extension changes nothing") {
  for (const std::string bytes : {"4\r\n{\"a\"\r\n4\r\n: 1}\r\n0\r\n\r\n", "8;x=y\r\n{\"a\": 1}\r\n0\r\n\r\n", "08\r\n{\"a\": 1}\r\n0\r\nX-Checksum: y\r\nZ: 1\r\n\r\n"}) {
    for (const std::size_t part : {std::size_t{1}, std::size_t{2}, std::size_t{7}, bytes.size()}) {
      CAPTURE(bytes, part);
      const read_body out = read_in_parts(chunked(), bytes + "GET /", part);
      CHECK(out.status == 0);
      CHECK(out.body == "{\"a\": 1}");
      CHECK(out.next == "GET /");
    }
  }
}

TEST_CASE("what is no chunk is refused, and one that is too large before it comes") {
  for (const char* bytes : {"-1\r\n", "\r\n", "x\r\n", "0x4\r\n", "+4\r\n", "4\n{\"a\"\r\n", "2\r\n{}XX", ";\r\n"}) {
    CAPTURE(bytes);
    CHECK(read_in_parts(chunked(), bytes, 100).status == 400);
  }
  CHECK(read_in_parts(chunked(), std::string(300, '1'), 300).status == 400);
  CHECK(read_in_parts(chunked(), "0\r\n" + std::string(20'000, 'x'), 1000).status == 400);
  for (const char* bytes : {"FFFFFFFFFFFFFFFF\r\n", "FFFFFFFFFFFFFFFFF\r\n", "1000001\r\n"}) CHECK(read_in_parts(chunked(), bytes, 100).status == 413);
}

TEST_CASE("a body of a known length grows with what has arrived, and takes no byte more than it has") {
  request_head head;
  head.body_bytes = limits::http_body_bytes_max;
  std::string body;
  std::string unread(1000, 'x');
  body_reader reader(head);
  CHECK_FALSE(*reader.take(unread, body));
  CHECK(body.capacity() < 3000);
  unread.assign(limits::http_body_bytes_max, 'y');
  CHECK(*reader.take(unread, body));
  CHECK(body.capacity() <= limits::http_body_bytes_max + 64);
  CHECK(unread.size() == 1000);
}

// Heads that could be read in two ways are refused: a proxy before us may have read them in the other.
#include "bus/http/request_head.hpp"
#include <catch2/catch.hpp>

using namespace ebb::bus::http;

namespace {

std::string post_with(const std::string& headers) { return "POST /echo HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n"; }

bool is_refused(const std::string& head) {
  const auto read = read_head(head);
  return !read && read.error().status == 400;
}

}  // namespace

TEST_CASE("a head with two lengths of a body, or with one that is none, is refused") {
  for (const char* headers : {"Content-Length: 15\r\nContent-Length: 16\r\n", "Content-Length: 15\r\nContent-Length: 15\r\n", "Content-Length: 15, 15\r\n", "Content-Length: \r\n",
                              "Content-Length: +15\r\n", "Content-Length: -1\r\n", "Content-Length: 0x15\r\n", "Content-Length: 1 5\r\n", "Content-Length : 15\r\n",
                              "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", "Transfer-Encoding: chunked, gzip\r\n", "Transfer-Encoding: \r\n",
                              "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"}) {
    CAPTURE(headers);
    CHECK(is_refused(post_with(headers)));
  }
  CHECK(is_refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"));
}

TEST_CASE("a head with a folded line, a bare line feed, a control character or a name that is none is refused") {
  for (const std::string headers : {"X: a\r\n b\r\n", "X: a\nContent-Length: 5\r\n", "X\r\n", ": a\r\n", " X: a\r\n", "X\t: a\r\n", "X Y: a\r\n", "X: a\x01\r\n", "X: a\rb\r\n"}) {
    CAPTURE(headers);
    CHECK(is_refused(post_with(headers)));
  }
  CHECK(is_refused(post_with(std::string("X: a\0b\r\n", 8))));
  for (const char* line : {"NONSENSE", "", "GET  HTTP/1.1", "GET / HTTP/2.0", "GET / / HTTP/1.1", "GET\t/ HTTP/1.1", "G(T / HTTP/1.1", " GET / HTTP/1.1"}) {
    CAPTURE(line);
    CHECK(is_refused(line + std::string("\r\nHost: localhost\r\n\r\n")));
  }
}

TEST_CASE("HTTP/1.1 names one Host, HTTP/1.0 may name none") {
  CHECK(is_refused("GET / HTTP/1.1\r\n\r\n"));
  CHECK(is_refused("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"));
  CHECK(read_head("GET / HTTP/1.0\r\n\r\n"));
}

TEST_CASE("what is said once is taken as it is said: names in any case, blanks around values, lengths beyond any body") {
  const auto chunked = read_head(post_with("TRANSFER-encoding: \t Chunked \r\n"));
  REQUIRE(chunked);
  CHECK(chunked->chunked);
  const auto known = read_head(post_with("content-LENGTH:15\r\nCookie: a\r\nCookie: b\r\n"));
  REQUIRE(known);
  CHECK(known->body_bytes == 15);
  CHECK(known->headers.at("cookie") == "a");
  CHECK(read_head(post_with("Content-Length: 99999999999999999999999\r\n"))->body_bytes > 1u << 30);
  CHECK_FALSE(read_head(post_with("Content-Length: 00\r\n"))->has_body());
}

TEST_CASE("a connection ends when one of the options of Connection is close, in any case") {
  for (const char* headers : {"Connection: CLOSE\r\n", "Connection: TE, close\r\n", "Connection: TE\r\nConnection: Close\r\n", "Connection: close ,TE\r\n"}) CHECK(read_head(post_with(headers))->closes);
  for (const char* headers : {"", "Connection: keep-alive\r\n", "Connection: closed\r\n", "Connection: TE\r\n"}) CHECK_FALSE(read_head(post_with(headers))->closes);
  CHECK(read_head("GET / HTTP/1.0\r\n\r\n")->closes);
  CHECK_FALSE(read_head("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")->closes);
}

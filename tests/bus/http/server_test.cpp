// The HTTP server over real sockets, with routes that know nothing of Ebb: who is served, who waits, who is sent away, and when.
#include "bus/http/server.hpp"
#include "config/limits.hpp"
#include "tests/bus/support/http_connection.hpp"
#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <iostream>
#include <sys/resource.h>
#include <thread>

using namespace ebb;
using namespace ebb::bus::http;
using bus::test::http_connection;
using bus::test::http_response;
using namespace std::chrono_literals;

namespace {

// Routes: /echo gives the body back; /size its bytes; /hold waits until it is let go, or its client leaves; /stream writes until nobody reads.
class echo_server {
 public:
  explicit echo_server(guard_rules rules = {.key = {}, .trusted_origins = {}, .address = "127.0.0.1", .loopback = true}) {
    routes all;
    all.add("GET", "/echo", [](const request&) { return response{.status = 200, .type = "text/plain", .body = "echo", .headers = {}, .stream = {}}; });
    all.add("POST", "/echo", [](const request& asked) { return response{.status = 200, .type = "text/plain", .body = asked.body, .headers = {}, .stream = {}}; });
    all.add("POST", "/size", [](const request& asked) { return response{.status = 200, .type = "text/plain", .body = std::to_string(asked.body.size()), .headers = {}, .stream = {}}; });
    all.add("GET", "/parts/{}/x/{}", [](const request& asked) {
      return response{.status = 200, .type = "text/plain", .body = asked.parts.at(0) + "," + asked.parts.at(1), .headers = {}, .stream = {}};
    });
    all.add("GET", "/hold", [this](const request& asked) {
      ++held;
      while (!let_go && !asked.peer->left()) std::this_thread::sleep_for(1ms);
      if (asked.peer->left()) ++left;
      --held;
      return response{.status = 200, .type = "text/plain", .body = "held", .headers = {}, .stream = {}};
    });
    all.add("GET", "/stream", [this](const request&) {
      return response{.status = 200, .type = "text/plain", .body = {}, .headers = {}, .stream = [this](body_writer& out) {
                        ++held;
                        const std::string text(1u << 16, 'x');
                        while (out.write(text)) {
                        }
                        --held;
                      }};
    });
    all.add("GET", "/throws", [](const request&) -> response { throw std::runtime_error("of the test"); });
    all.add("GET", "/open", [](const request&) { return response{.status = 200, .type = "text/plain", .body = "open", .headers = {}, .stream = {}}; }, access::open);
    auto at = listener::open("127.0.0.1:0");
    if (!at) throw std::runtime_error(at.error().text);
    server_.emplace(*std::move(at), std::move(all), std::move(rules));
    server_->start();
  }

  const std::string& url() const { return server_->url(); }
  bus::http::server& server() { return *server_; }
  void stop() { server_.reset(); }

  std::atomic<int> held = 0;
  std::atomic<int> left = 0;
  std::atomic<bool> let_go = false;

 private:
  std::optional<bus::http::server> server_;
};

template <class Condition>
bool comes_true(Condition condition) {
  for (const auto until = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < until; std::this_thread::sleep_for(2ms)) {
    if (condition()) return true;
  }
  return false;
}

std::size_t resident_mib() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * 4096 >> 20;
}

// Sanitizers keep what was freed.
bool fits(std::size_t most_mib) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return most_mib > 0;
#else
  return resident_mib() < most_mib;
#endif
}

constexpr const char* post_echo = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

void let_many_connect() {
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  now.rlim_cur = std::min<rlim_t>(now.rlim_max, 8192);
  ::setrlimit(RLIMIT_NOFILE, &now);
}

}  // namespace

TEST_CASE("a connection serves one request after the other, also those sent before the answers were read") {
  echo_server of;
  http_connection client(of.url());
  for (int i = 0; i < 3; ++i) CHECK(client.ask("POST", "/echo", "{}").body == "{}");
  for (const char* body : {"{\"a\": 1}", "{\"b\": 2}", "{\"c\": 3}"}) client.send_request("POST", "/echo", body);
  CHECK(client.receive().body == "{\"a\": 1}");
  CHECK(client.receive().body == "{\"b\": 2}");
  CHECK(client.receive().body == "{\"c\": 3}");
  CHECK(client.ask("GET", "/parts/one/x/two%20three").body == "one,two three");
}

TEST_CASE("a body in chunks is the same as one of a known length, and one that arrives byte by byte is waited for") {
  echo_server of;
  http_connection client(of.url());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n4\r\n: 1}\r\n0\r\n\r\n");
  CHECK(client.receive().body == "{\"a\": 1}");
  for (const char each : std::string("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")) {
    client.send(std::string(1, each));
    std::this_thread::sleep_for(100us);
  }
  CHECK(client.receive().body == "{}");
}

TEST_CASE("what is no request is answered with a JSON error, and its connection ends") {
  echo_server of;
  const std::vector<std::pair<std::string, int>> all{{"NONSENSE\r\n\r\n", 400},
                                                     {"GET /echo HTTP/3.0\r\n\r\n", 400},
                                                     {"BREW /echo HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
                                                     {"GET /" + std::string(9000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414},
                                                     {"GET /echo HTTP/1.1\r\nX: " + std::string(limits::http_head_bytes_max + 1, 'x'), 431}};
  for (const auto& [text, status] : all) {
    CAPTURE(text.substr(0, 40));
    http_connection client(of.url());
    client.send(text);
    const http_response answer = client.receive();
    CHECK(answer.status == status);
    CHECK(answer.json().at("error").at("message").is_string());
    CHECK(client.ends());
  }
}

TEST_CASE("paths and methods that are not served are refused by name, and a mistake of a handler is a 500") {
  echo_server of;
  http_connection client(of.url());
  CHECK(client.ask("GET", "/nowhere").error_code() == "unknown_url");
  CHECK(client.ask("GET", "/" + std::string(600, 'y')).status == 414);
  const http_response wrong = client.ask("DELETE", "/echo");
  CHECK(wrong.status == 405);
  CHECK(wrong.headers.at("allow") == "GET, POST");
  CHECK(client.ask("GET", "/throws").error_code() == "internal");
  CHECK(client.ask("HEAD", "/echo").status == 200);
  CHECK(client.ask("GET", "/echo").body == "echo");
}

TEST_CASE("a body that is too large, compressed or no JSON is refused before it is read, and the refusal arrives") {
  echo_server of;
  struct wrong {
    std::string headers;
    int status;
  };
  const std::vector<wrong> all{{"Content-Type: application/json\r\nContent-Length: 99999999999\r\n", 413},
                               {"Content-Type: application/json\r\nContent-Length: -1\r\n", 400},
                               {"Content-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400},
                               {"Content-Type: application/json\r\nContent-Length: 5\r\nContent-Encoding: gzip\r\n", 415},
                               {"Content-Type: text/plain\r\nContent-Length: 5\r\n", 415},
                               {"Content-Length: 5\r\n", 415}};
  for (const wrong& each : all) {
    CAPTURE(each.headers);
    http_connection client(of.url());
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\n" + each.headers + "\r\n12345");
    CHECK(client.receive().status == each.status);
    CHECK(client.ends());
  }
  http_connection client(of.url());  // in chunks nobody knows how much will come
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "100000\r\n" + std::string(1u << 20, ' ') + "\r\n";
  for (int i = 0; i < 17; ++i) client.send(chunk);
  CHECK(client.receive().status == 413);
}

TEST_CASE("a client that leaves is noticed by who works for it, within a second") {
  echo_server of;
  {
    http_connection client(of.url());
    client.send_request("GET", "/hold");
    REQUIRE(comes_true([&] { return of.held == 1; }));
  }
  const auto began = std::chrono::steady_clock::now();
  CHECK(comes_true([&] { return of.left == 1; }));
  CHECK(std::chrono::steady_clock::now() - began < 1s);
}

TEST_CASE("a thousand connections at rest, and a hundred whose requests never arrive whole, keep nobody waiting") {
  let_many_connect();
  echo_server of;
  std::vector<std::unique_ptr<http_connection>> at_rest;
  for (int i = 0; i < 1000; ++i) {
    at_rest.push_back(std::make_unique<http_connection>(of.url()));
    if (i % 2 == 0) REQUIRE(at_rest.back()->ask("GET", "/echo").status == 200);
  }
  std::vector<std::unique_ptr<http_connection>> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(std::make_unique<http_connection>(of.url()));
    slow.back()->send("GET /echo HTTP/1.1\r\nHost: loc");
  }
  REQUIRE(comes_true([&] { return of.server().connection_count() == 1100; }));
  std::vector<double> ms;
  for (int i = 0; i < 200; ++i) {
    const auto began = std::chrono::steady_clock::now();
    REQUIRE(http_connection(of.url()).ask("GET", "/echo").status == 200);
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
  }
  std::sort(ms.begin(), ms.end());
  std::cout << "with 1000 connections at rest a new one is answered within " << ms[100] << " ms (median), " << ms[197] << " ms (p99)\n";
  CHECK(ms[100] < 100);
  for (const auto& each : at_rest) REQUIRE(each->ask("GET", "/echo").status == 200);
}

TEST_CASE("beyond the bound of connections the one longest at rest makes room") {
  let_many_connect();
  echo_server of;
  std::vector<std::unique_ptr<http_connection>> all;
  for (std::size_t i = 0; i < limits::http_connections_max + 20; ++i) all.push_back(std::make_unique<http_connection>(of.url()));
  CHECK(all.back()->ask("GET", "/echo").status == 200);
  CHECK(of.server().connection_count() <= limits::http_connections_max);
  CHECK(all.front()->ends());
}

TEST_CASE("when every worker has a request one more is told to come again, and others are served when they are free") {
  let_many_connect();
  echo_server of;
  std::vector<std::unique_ptr<http_connection>> holding;
  for (std::size_t i = 0; i < limits::http_workers_max; ++i) {
    holding.push_back(std::make_unique<http_connection>(of.url()));
    holding.back()->send_request("GET", "/hold");
  }
  REQUIRE(comes_true([&] { return of.held == static_cast<int>(limits::http_workers_max); }));
  http_connection one_more(of.url());
  const http_response refused = one_more.ask("GET", "/echo");
  CHECK(refused.status == 503);
  CHECK(refused.headers.contains("retry-after"));
  CHECK(refused.error_code() == "busy");
  of.let_go = true;
  for (const auto& each : holding) CHECK(each->receive().body == "held");
  CHECK(http_connection(of.url()).ask("GET", "/echo").status == 200);
}

TEST_CASE("an end is put to a head that does not arrive, with a 408") {
  echo_server of;
  http_connection silent(of.url());
  http_connection slow(of.url());
  slow.send("GET /echo HTT");
  const auto began = std::chrono::steady_clock::now();
  CHECK(slow.receive().status == 408);
  CHECK(silent.ends());
  CHECK(std::chrono::steady_clock::now() - began < limits::http_head_timeout + 3s);
}

TEST_CASE("a reader that takes nothing of its answer is given up, and its worker is free again") {
  echo_server of;
  http_connection stalled(of.url());
  stalled.send_request("GET", "/stream");
  REQUIRE(comes_true([&] { return of.held == 1; }));
  const auto until = std::chrono::steady_clock::now() + limits::http_stall_timeout + 5s;
  while (of.held == 1 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(50ms);
  CHECK(of.held == 0);
}

TEST_CASE("stopping ends what is under way: a request that waits, a stream that nobody reads, connections at rest") {
  echo_server of;
  http_connection at_rest(of.url());
  http_connection holding(of.url());
  http_connection stalled(of.url());
  CHECK(at_rest.ask("GET", "/echo").status == 200);
  holding.send_request("GET", "/hold");
  stalled.send_request("GET", "/stream");
  REQUIRE(comes_true([&] { return of.held == 2; }));
  const auto began = std::chrono::steady_clock::now();
  of.stop();
  CHECK(std::chrono::steady_clock::now() - began < limits::stop_linger + 2s);
  CHECK(of.held == 0);
  CHECK(at_rest.ends());
  CHECK(holding.receive().body == "held");
}

TEST_CASE("a client of HTTP/1.0 has its stream ended by the end of the connection") {
  echo_server of;
  http_connection client(of.url());
  client.send("GET /echo HTTP/1.0\r\n\r\n");
  CHECK(client.receive().body == "echo");
  CHECK(client.ends());
}

TEST_CASE("bytes behind a head that could be read in two ways are never served as another request") {
  echo_server of;
  const std::string inner = "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const char* headers : {"Content-Length: 2\r\nContent-Length: 40\r\n", "Content-Length: 40\r\nContent-Length: 2\r\n", "Content-Length : 2\r\n", "Content-Length: \r\n",
                              "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n"}) {
    CAPTURE(headers);
    http_connection client(of.url());
    client.send(post_echo + std::string(headers) + "\r\n{}" + inner);
    CHECK(client.receive().status == 400);
    CHECK(client.ends());
    CHECK(client.unread().empty());
  }
  for (const char* head : {"GET /echo HTTP/1.1\r\n\r\n", "GET /echo HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"}) {
    http_connection client(of.url());
    client.send(head);
    CHECK(client.receive().status == 400);
  }
}

TEST_CASE("more slow bodies than there are workers keep nobody waiting, and an end is put to them with a 408") {
  let_many_connect();
  echo_server of;
  std::vector<std::unique_ptr<http_connection>> slow;
  for (std::size_t i = 0; i < limits::http_workers_max + 20; ++i) {
    slow.push_back(std::make_unique<http_connection>(of.url()));
    slow.back()->send(post_echo + std::string("Content-Length: 20\r\n\r\n{"));
    slow.back()->give_up_after(limits::http_body_timeout + 5s);
  }
  REQUIRE(comes_true([&] { return of.server().connection_count() == slow.size(); }));
  for (int i = 0; i < 20; ++i) {
    const auto began = std::chrono::steady_clock::now();
    CHECK(http_connection(of.url()).ask("POST", "/echo", "{}").status == 200);
    CHECK(std::chrono::steady_clock::now() - began < 1s);
  }
  CHECK(of.server().worker_count() < 20);
  slow.front()->send(std::string(18, ' ') + "}");
  CHECK(slow.front()->receive().status == 200);
  CHECK(slow.back()->receive().status == 408);
}

TEST_CASE("a flood of large bodies takes bounded memory, lets small ones through, and leaves none of it behind") {
  echo_server of;
  REQUIRE(http_connection(of.url()).ask("POST", "/echo", "{}").status == 200);
  const std::string most(limits::http_body_bytes_max - 1, ' ');
  const std::size_t before = resident_mib();
  {
    std::vector<std::unique_ptr<http_connection>> flood;
    int refused = 0;
    for (int i = 0; i < 20; ++i) {
      flood.push_back(std::make_unique<http_connection>(of.url()));
      flood.back()->send(post_echo + ("Content-Length: " + std::to_string(limits::http_body_bytes_max) + "\r\n\r\n") + most);
      flood.back()->give_up_after(i < 5 ? 100ms : 10s);
      if (i >= 5) refused += flood.back()->receive().status == 503 ? 1 : 0;
    }
    CHECK(refused == 15);
    CHECK(fits(before + (limits::http_bodies_bytes_max >> 20) + 64));
    CHECK(http_connection(of.url()).ask("POST", "/echo", "{}").status == 200);
  }
  CHECK(comes_true([&] { return fits(before + 24); }));
  CHECK(http_connection(of.url()).ask("POST", "/size", most).body == std::to_string(most.size()));
  CHECK(comes_true([&] { return fits(before + 24); }));
}

TEST_CASE("threads that many requests at once had made end when there is nothing to do") {
  echo_server of;
  std::vector<std::unique_ptr<http_connection>> holding;
  for (int i = 0; i < 60; ++i) {
    holding.push_back(std::make_unique<http_connection>(of.url()));
    holding.back()->send_request("GET", "/hold");
  }
  REQUIRE(comes_true([&] { return of.held == 60; }));
  CHECK(of.server().worker_count() == 60);
  of.let_go = true;
  for (const auto& each : holding) CHECK(each->receive().body == "held");
  CHECK(comes_true([&] { return of.server().worker_count() == limits::http_workers_kept; }));
  CHECK(http_connection(of.url()).ask("GET", "/echo").status == 200);
}

TEST_CASE("a long header is taken as long as the whole head is not too large, and a head beyond the bound is a 431") {
  echo_server of;
  http_connection client(of.url());
  CHECK(client.ask("GET", "/echo", {}, "Cookie: " + std::string(8500, 'c') + "\r\n").status == 200);
  std::string many;
  for (int i = 0; i < 7; ++i) many += "X: " + std::string(4000, 'x') + "\r\n";
  CHECK(client.ask("GET", "/echo", {}, many).status == 431);
  CHECK(client.ends());
}

TEST_CASE("a body in chunks may have a trailer, and one whose chunks are none is a 400 at once") {
  echo_server of;
  http_connection client(of.url());
  client.send(post_echo + std::string("Transfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nX-Checksum: y\r\n\r\n"));
  CHECK(client.receive().body == "{}");
  for (const auto& [chunk, status] : {std::pair{"-1\r\n{}\r\n0\r\n\r\n", 400}, std::pair{"2\r\n{}XX0\r\n\r\n", 400}, std::pair{"FFFFFFFFFFFFFFFF\r\n{}", 413}}) {
    http_connection wrong(of.url());
    wrong.send(post_echo + std::string("Transfer-Encoding: chunked\r\n\r\n") + chunk);
    CHECK(wrong.receive().status == status);
    CHECK(wrong.ends());
  }
}

TEST_CASE("a client that waits to be told to go on is told so, and one whose request is refused anyway is not") {
  echo_server of;
  http_connection client(of.url());
  client.send(post_echo + std::string("Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
  CHECK(client.receive_head().status == 100);
  client.send("{}");
  CHECK(client.receive().body == "{}");
  client.send(post_echo + std::string("Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"));
  CHECK(client.receive().status == 413);
}

TEST_CASE("a client that asks for the end of the connection among other options has it") {
  echo_server of;
  for (const char* option : {"CLOSE", "TE, close"}) {
    http_connection client(of.url());
    const http_response answer = client.ask("GET", "/echo", {}, "Connection: " + std::string(option) + "\r\n");
    CHECK(answer.headers.at("connection") == "close");
    CHECK(client.ends());
  }
}

// HTTP and the daemon behind it: state, events, settings, access, the journal.
#include "bus/codec.hpp"
#include "tests/tools/support/http_daemon.hpp"
#include "tools/replay.hpp"
#include "tools/virtual_engine.hpp"
#include <atomic>
#include <fstream>
#include <future>
#include <iostream>
#include <sstream>
#include <zmq.hpp>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

TEST_CASE("events come over HTTP as they do on the bus") {
  const http_daemon daemon;
  http_connection listening(daemon.url());
  listening.send_request("GET", "/v1/events");
  REQUIRE(listening.receive_head().headers.at("content-type") == "text/event-stream");
  CHECK(listening.receive_chunk().starts_with(":"));
  daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 100000, "gpu": 1})");
  std::string heard;
  const auto has = [&](const std::string& event) { return heard.find("event: " + event + "\n") != std::string::npos; };
  while (!has("short") || !has("resized") || !has("residency_flipped")) {
    const std::string chunk = listening.receive_chunk();
    REQUIRE(!chunk.empty());
    heard += chunk;
  }
  for (const json& each : data_of(heard)) {
    CHECK(each.at("sequence").is_number());
    CHECK(each.at("device") == 1);
  }
}

TEST_CASE("health, status, cards, experts and models are there, and health needs no key") {
  const http_daemon daemon;
  CHECK(daemon.ask("GET", "/health").json() == json{{"status", "ok"}});
  CHECK(daemon.ask("HEAD", "/health").status == 200);
  CHECK(daemon.ask("GET", "/v1/status").json().at("state") == "ready");
  CHECK(daemon.ask("GET", "/v1/cards").json().at("cards").size() == 2);
  CHECK(daemon.ask("GET", "/v1/experts").json().at("cards").size() == 2);
  const json models = daemon.ask("GET", "/v1/models").json();
  const std::string id = models.at("data").at(0).at("id");
  CHECK(daemon.ask("GET", "/v1/models/" + id).json().at("object") == "model");
  CHECK(daemon.ask("GET", "/v1/models/another").status == 404);
}

TEST_CASE("with a key nobody is served without it but health and preflights, and pages of others are sent away with it too") {
  bus::test::temporary_folder folder;
  const auto file = folder / "key";
  std::ofstream(file) << "correct-horse\n";
  const http_daemon daemon([&](settings& from) {
    from.http.api_key_file = file.string();
    from.http.trusted_origins = {"http://comfy.example"};
  });
  const std::string key = "Authorization: Bearer correct-horse\r\n";
  CHECK(daemon.ask("GET", "/health").status == 200);
  for (const char* path : {"/v1/vram", "/v1/status", "/v1/config", "/nowhere"}) CHECK(daemon.ask("GET", path).status == 401);
  CHECK(daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 5})", "X-Api-Key: wrong-horse\r\n").status == 401);
  CHECK(daemon.ask("GET", "/v1/vram", {}, key).json().at("reserve_mib") == 0);
  CHECK(daemon.ask("GET", "/v1/vram", {}, key + "Origin: http://evil.example\r\n").error_code() == "foreign_origin");
  const http_response trusted = daemon.ask("GET", "/v1/vram", {}, key + "Origin: http://comfy.example\r\n");
  CHECK(trusted.headers.at("access-control-allow-origin") == "http://comfy.example");
  const http_response preflight = daemon.ask("OPTIONS", "/v1/vram", {}, "Origin: http://comfy.example\r\nAccess-Control-Request-Method: POST\r\n");
  CHECK(preflight.status == 204);
  CHECK_THAT(preflight.headers.at("access-control-allow-methods"), Catch::Contains("POST"));
  http_connection elsewhere(daemon.url());
  elsewhere.send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  CHECK(elsewhere.receive().error_code() == "foreign_host");
}

TEST_CASE("settings are shown without secrets, and those that can be are edited in their file for the next start") {
  bus::test::temporary_folder folder;
  const auto file = folder / "ebb.toml";
  std::ofstream(file) << "# mine\nvram_reserve_mib = 0 # none\n";
  const http_daemon daemon({}, file);
  const json before = daemon.ask("GET", "/v1/config").json();
  CHECK(before.at("settings").at("bus").at("listen").size() == 1);
  CHECK(before.at("settings").at("vram_elastic") == true);
  CHECK(before.at("next_start").at("vram_reserve_mib") == 0);
  const json after = daemon.ask("PATCH", "/v1/config", R"({"vram_reserve_mib": [5, 6], "min_free_vram_mib": 7})").json();
  CHECK(after.at("next_start").at("vram_reserve_mib") == json{5, 6});
  CHECK(daemon.ask("GET", "/v1/config").json().at("next_start").at("min_free_vram_mib") == 7);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  CHECK(text.str() == "# mine\nvram_reserve_mib = [5, 6] # none\nmin_free_vram_mib = 7\n");
  const std::vector<std::pair<std::string, int>> refused{{R"({"parallel": 2})", 409}, {R"({"vram_reserve_mib": -1})", 400}, {R"({"vram_reserve_mib": true})", 400}, {R"({"vram_elastic": 1})", 400},
                                                         {R"({"vram_elastc": true})", 400}, {R"({"min_free_vram_mib": 8, "parallel": 2})", 409}, {"{}", 400}};
  for (const auto& [body, status] : refused) {
    CAPTURE(body);
    CHECK(daemon.ask("PATCH", "/v1/config", body).status == status);
  }
  std::ostringstream again;
  again << std::ifstream(file).rdbuf();
  CHECK(again.str() == text.str());
  CHECK(http_daemon().ask("PATCH", "/v1/config", R"({"vram_reserve_mib": 5})").status == 409);
}

TEST_CASE("a client of the bus that takes the name of one in the process is refused") {
  const http_daemon daemon;
  zmq::context_t context;
  zmq::socket_t client(context, zmq::socket_type::dealer);
  client.set(zmq::sockopt::routing_id, std::string("\0inner-1", 8));
  client.set(zmq::sockopt::rcvtimeo, static_cast<int>(std::chrono::milliseconds(patience).count()));
  client.set(zmq::sockopt::linger, 0);
  client.connect(daemon.endpoint());
  client.send(zmq::str_buffer("STATUS"), zmq::send_flags::none);
  zmq::message_t answer;
  REQUIRE(client.recv(answer));
  const auto reply = bus::decode_reply(bus::as_bytes(answer.to_string_view()));
  REQUIRE(reply);
  CHECK(std::get<error>(reply->body).code == errc::refused);
}

// The best of some rounds counts, since what else the machine does only ever adds: the first within the bound ends them.
TEST_CASE("the first byte of GET /v1/vram comes within 5 ms 99 times of 100 while an answer streams") {
#if defined(EBB_DEBUG_ASSERTS)
  constexpr double p99_ms_most = 50;  // unoptimised, and with sanitizers
#else
  constexpr double p99_ms_most = 5;
#endif
  const http_daemon daemon;
  http_connection asking(daemon.url());
  double best_ms = p99_ms_most;
  for (int round = 0; round < 30 && best_ms >= p99_ms_most; ++round) {
    http_connection reader(daemon.url());
    reader.send_request("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 2000, "stream": true})");
    REQUIRE(reader.receive_head().status == 200);
    std::atomic<bool> enough = false;
    auto reading = std::async(std::launch::async, [&] {
      int n_chunks = 0;
      while (!enough && !reader.receive_chunk().empty()) ++n_chunks;
      return n_chunks;
    });
    std::vector<double> ms;
    for (int i = 0; i < 300; ++i) {
      const auto began = std::chrono::steady_clock::now();
      asking.send_request("GET", "/v1/vram");
      pollfd first_byte{asking.socket(), POLLIN, 0};
      ::poll(&first_byte, 1, 60'000);
      ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
      REQUIRE(asking.receive().json().at("status") == "ok");
    }
    const bool still_streams = daemon.sessions() == 1;
    enough = true;
    std::sort(ms.begin(), ms.end());
    std::cout << "first byte of GET /v1/vram while an answer streams: median " << ms[150] << " ms, p99 " << ms[297] << " ms, worst " << ms.back()
              << " ms; chunks read meanwhile: " << reading.get() << (still_streams ? "" : " (the answer ended before)") << std::endl;
    if (still_streams) best_ms = std::min(best_ms, ms[297]);
  }
  CHECK(best_ms < p99_ms_most);
}

TEST_CASE("what came over HTTP is in the journal, and its replay gives every reply again") {
  bus::test::temporary_folder folder;
  const auto journal = folder / "journal";
  {
    const http_daemon daemon([&](settings& from) { from.journal = journal.string(); });
    REQUIRE(daemon.ask("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 30, "stream": true, "n": 2, "logprobs": true, "top_logprobs": 3})").status == 200);
    REQUIRE(daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 5})").status == 200);
    REQUIRE(daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 5, "gpu": 9})").status == 400);
    REQUIRE(daemon.ask("POST", "/v1/completions", R"({"prompt": "In the", "max_tokens": 20})").status == 200);
    REQUIRE(daemon.ask("POST", "/v1/vram/leases", R"({"owner": "a", "gpu": 1, "mib": 2})", "Idempotency-Key: x\r\n").status == 201);
    REQUIRE(daemon.ask("GET", "/v1/vram").status == 200);
  }
  const auto report = replay(journal, in_virtual_time(EBB_DEMO_MODEL, ""));
  INFO((report ? std::string() : report.error().text));
  REQUIRE(report);
  CHECK(report->requests >= 7);
  CHECK(report->replies > 60);
  for (const auto& each : report->differences) CHECK(each.field + ": " + each.recorded + " is now " + each.replayed == "");
}

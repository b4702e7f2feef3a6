// Memory over HTTP: lent, taken back, leased, and asked for while there is no model yet.
#include "tests/tools/support/http_daemon.hpp"
#include <future>
#include <mutex>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

TEST_CASE("memory is lent and taken back over HTTP, and every figure of every card is in the answer") {
  const http_daemon daemon;
  const json lent = daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 5, "gpu": 0})").json();
  CHECK(lent.at("status") == "ok");
  CHECK(lent.at("reserve_mib") == 5);
  CHECK(lent.at("expert_slots") < lent.at("expert_slots_full"));
  CHECK(lent.at("short_mib") == 0);
  REQUIRE(lent.at("gpus").size() == 1);
  CHECK(lent.at("gpus")[0].at("gpu") == 0);
  CHECK(lent.at("gpus")[0].at("vram_free_mib") >= 5);

  const json seen = daemon.ask("GET", "/v1/vram").json();
  REQUIRE(seen.at("gpus").size() == 2);
  for (const char* sum : {"reserve_mib", "expert_slots", "expert_slots_full", "expert_cache_mib", "expert_cache_full_mib", "vram_free_mib", "short_mib"}) {
    CHECK(seen.at(sum).get<double>() == Approx(seen["gpus"][0].at(sum).get<double>() + seen["gpus"][1].at(sum).get<double>()));
  }
  CHECK(seen.at("prompt_chunk") == std::min(seen["gpus"][0].at("prompt_chunk"), seen["gpus"][1].at("prompt_chunk")));

  const json taken_back = daemon.ask("POST", "/v1/vram", R"({"reserve_mib": null})").json();
  CHECK(taken_back.at("expert_slots") == taken_back.at("expert_slots_full"));

  const json too_much = daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 100000})").json();
  CHECK(too_much.at("status") == "short");
  CHECK(too_much.at("short_mib") > 0);
}

TEST_CASE("every wrong body of /v1/vram is refused by the name of its field, and nothing changes") {
  const http_daemon daemon;
  struct wrong {
    std::string body;
    std::string code;
    json param;
  };
  const std::vector<wrong> all{{R"({"reserve_mib": true})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": "5"})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": 1.5})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": 5.0})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": -1})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": 4294967296})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": 1e3})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": [1]})", "bad_value", "reserve_mib"},
                               {R"({})", "missing_key", "reserve_mib"},
                               {R"({"gpu": 0})", "missing_key", "reserve_mib"},
                               {R"({"reserve_mib": 1, "gpu": 2})", "unknown_device", "gpu"},
                               {R"({"reserve_mib": 1, "gpu": -1})", "bad_value", "gpu"},
                               {R"({"reserve_mib": 1, "gpu": true})", "bad_value", "gpu"},
                               {R"({"reserve_mib": 1, "device": 0})", "unknown_key", "device"},
                               {R"({"reserve_mib": 1, "reserve_mib": 2})", "malformed", nullptr},
                               {R"({"reserve_mib": 1} x)", "malformed", nullptr},
                               {R"([1])", "malformed", nullptr},
                               {"\"\xff\"", "malformed", nullptr},
                               {"{", "malformed", nullptr}};
  const json before = daemon.ask("GET", "/v1/vram").json();
  for (const wrong& each : all) {
    CAPTURE(each.body);
    const http_response answer = daemon.ask("POST", "/v1/vram", each.body);
    CHECK(answer.status == 400);
    CHECK(answer.error_code() == each.code);
    CHECK(answer.json().at("error").at("param") == each.param);
    CHECK(answer.json().at("error").at("type") == "invalid_request_error");
  }
  CHECK(daemon.ask("GET", "/v1/vram").json() == before);
}

TEST_CASE("a lease over HTTP outlives its connection, is renewed and released, and is the same one for the same key") {
  const http_daemon daemon;
  const std::string wanted = R"({"owner": "comfyui", "gpu": 0, "mib": 3, "ttl_s": 600})";
  const http_response first = daemon.ask("POST", "/v1/vram/leases", wanted, "Idempotency-Key: job-1\r\n");
  REQUIRE(first.status == 201);
  const json lease = first.json();
  const std::string place = first.headers.at("location");
  CHECK(place == "/v1/vram/leases/" + std::to_string(lease.at("lease_id").get<int>()));
  CHECK(lease.at("mib") == 3);
  CHECK(lease.at("cards").size() == 1);

  const http_response again = daemon.ask("POST", "/v1/vram/leases", wanted, "Idempotency-Key: job-1\r\n");
  CHECK(again.status == 200);
  CHECK(again.headers.at("location") == place);
  CHECK(again.json().at("lease_id") == lease.at("lease_id"));
  CHECK(again.json().at("cards").at(0).at("reserve_mib") == lease.at("cards").at(0).at("reserve_mib"));
  REQUIRE(daemon.ask("GET", "/v1/vram/leases").json().at("leases").size() == 1);

  const json renewed = daemon.ask("PATCH", place, R"({"ttl_s": 1200})").json();
  CHECK(renewed.at("ends_in_s") > 600);
  CHECK(daemon.ask("POST", place, R"({"ttl_s": 60})").json().at("ends_in_s") <= 60);
  CHECK(daemon.ask("DELETE", place).status == 200);
  CHECK(daemon.ask("DELETE", place).status == 404);
  CHECK(daemon.ask("GET", "/v1/vram/leases").json().at("leases").empty());
}

TEST_CASE("a key that stands for a lease is refused with another body, and is free again when that lease has ended") {
  const http_daemon daemon;
  const std::string key = "Idempotency-Key: job-1\r\n";
  const http_response first = daemon.ask("POST", "/v1/vram/leases", R"({"owner": "a", "gpu": 0, "mib": 3, "ttl_s": 600})", key);
  REQUIRE(first.status == 201);
  for (const char* other : {R"({"owner": "b", "gpu": 0, "mib": 3, "ttl_s": 600})", R"({"owner": "a", "gpu": 1, "mib": 3, "ttl_s": 600})", R"({"owner": "a", "gpu": 0, "mib": 2, "ttl_s": 600})",
                            R"({"owner": "a", "gpu": 0, "mib": 3, "ttl_s": 60})"}) {
    CAPTURE(other);
    const http_response refused = daemon.ask("POST", "/v1/vram/leases", other, key);
    CHECK(refused.status == 422);
    CHECK(refused.error_code() == "idempotency_key_reused");
  }
  CHECK(daemon.ask("POST", "/v1/vram/leases", R"({"owner": "a", "gpu": 0, "mib": 3, "ttl_s": 600, "wait_s": 1})", key).status == 200);
  CHECK(daemon.ask("GET", "/v1/vram/leases").json().at("leases").size() == 1);
  CHECK(daemon.ask("DELETE", first.headers.at("location")).status == 200);
  CHECK(daemon.ask("POST", "/v1/vram/leases", R"({"owner": "b", "gpu": 1, "mib": 2})", key).status == 201);
}

TEST_CASE("a plan of the reserve and a lease beside it is short exactly when that lease would be refused, whatever is lent already") {
  const http_daemon daemon;
  REQUIRE(daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 5, "gpu": 0})").status == 200);
  const auto lend = [&](int mib) { return daemon.ask("POST", "/v1/vram/leases", json{{"owner", "a"}, {"gpu", 0}, {"mib", mib}}.dump()); };
  for (const int lent : {0, 2, 2}) {
    CAPTURE(lent);
    if (lent > 0) REQUIRE(lend(lent).status == 201);
    int granted = 0;
    int refused = 0;
    for (int mib = 1; mib < 24; ++mib) {
      CAPTURE(mib);
      const json planned = daemon.ask("POST", "/v1/vram/plan", json{{"reserve_mib", 5 + mib}, {"gpu", 0}}.dump()).json().at("cards").at(0);
      const http_response answer = lend(mib);
      CHECK((planned.at("short_mib") > 0) == (answer.status == 409));
      ++(answer.status == 201 ? granted : refused);
      if (answer.status == 201) REQUIRE(daemon.ask("DELETE", answer.headers.at("location")).status == 200);
    }
    CHECK((granted > 0 && refused > 0));
  }
}

TEST_CASE("before anything was answered a plan has no times, and afterwards it has") {
  const http_daemon daemon;
  const auto planned = [&] { return daemon.ask("POST", "/v1/vram/plan", R"({"reserve_mib": 5})").json(); };
  const json before = planned();
  CHECK((before.at("tokens_per_s").is_null() && before.at("tokens_per_s_now").is_null()));
  CHECK((before.at("cards").at(0).at("ms_per_token").is_null() && before.at("cards").at(0).at("ms_per_token_now").is_null()));
  REQUIRE(daemon.ask("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 60})").status == 200);
  CHECK(planned().at("tokens_per_s") > 0);
}

TEST_CASE("a sum of reserves may be more than any one of them can be") {
  const http_daemon daemon;
  const json most = daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 4294967295})").json();
  CHECK(most.at("reserve_mib") == 8589934590);
}

TEST_CASE("a lease that there is no room for is refused with 409, and one that is waited for ends with its client") {
  const http_daemon daemon;
  const http_response refused = daemon.ask("POST", "/v1/vram/leases", R"({"owner": "a", "gpu": 0, "mib": 100000})");
  CHECK(refused.status == 409);
  CHECK(refused.error_code() == "short_of");

  const auto id = daemon.ask("POST", "/v1/vram/leases", R"({"owner": "a", "gpu": 0, "mib": 8})").json().at("lease_id").get<int>();
  {
    http_connection waiting(daemon.url());
    waiting.send_request("POST", "/v1/vram/leases", R"({"owner": "b", "gpu": 0, "mib": 8, "wait_s": 600})");
    waiting.give_up_after(std::chrono::milliseconds(200));
    CHECK(waiting.receive().status == 0);
  }
  CHECK(daemon.ask("DELETE", "/v1/vram/leases/" + std::to_string(id)).status == 200);
  CHECK(comes_true([&] { return daemon.ask("GET", "/v1/vram/leases").json().at("leases").empty(); }));
}

TEST_CASE("what is asked about memory during the load is answered at once with not_loaded, and holds after it") {
  bus::test::temporary_folder folder;
  engine_options options = demo_on(2);
  options.from.bus.listen = {"ipc://" + (folder / "commands").string()};
  options.from.state_dir = (folder / "state").string();
  options.from.http.listen = free_address();
  const std::uint32_t start_mib = 6;
  options.from.vram_reserve_mib = {start_mib};
  const std::string at = "http://" + options.from.http.listen;
  std::promise<void> loading;
  std::promise<void> seen;
  std::once_flag once;
  options.progress = [&](double) {  // the load is under way until this returns
    std::call_once(once, [&] {
      loading.set_value();
      seen.get_future().wait();
    });
  };
  auto asks = std::async(std::launch::async, [&] {
    loading.get_future().wait();
    const http_response early = http_connection(at).ask("POST", "/v1/vram", R"({"reserve_mib": 5})");
    const http_response health = http_connection(at).ask("GET", "/health");
    const http_response look = http_connection(at).ask("GET", "/v1/vram");
    const http_response one = http_connection(at).ask("POST", "/v1/vram", R"({"reserve_mib": 7, "gpu": 1})");
    const http_response both = http_connection(at).ask("GET", "/v1/vram");
    const http_response nowhere = http_connection(at).ask("POST", "/v1/vram", R"({"reserve_mib": 7, "gpu": 99})");
    const http_response of_start = http_connection(at).ask("POST", "/v1/vram", R"({"reserve_mib": null, "gpu": 1})");
    const http_response again = http_connection(at).ask("POST", "/v1/vram", R"({"reserve_mib": 5})");
    const http_response answer = http_connection(at).ask("POST", "/v1/chat/completions", chat + "}");
    seen.set_value();
    const auto wrong = [](const http_response& what) { return "not as it should be: " + what.body; };
    if (early.status != 200 || early.json().at("status") != "not_loaded" || early.json().at("reserve_mib") != 5) return wrong(early);
    if (health.status != 503 || health.json().at("status") != "loading") return wrong(health);
    if (look.status != 200 || look.json().at("status") != "not_loaded" || look.json().at("reserve_mib") != 5 || !look.json().at("vram_free_mib").is_null()) return wrong(look);
    if (one.json().at("reserve_mib") != 7 || one.json().at("gpus").size() != 1) return wrong(one);
    if (!both.json().at("reserve_mib").is_null() || both.json().at("gpus").at(0).at("reserve_mib") != 5 || both.json().at("gpus").at(1).at("reserve_mib") != 7) return wrong(both);
    if (nowhere.status != 400 || nowhere.error_code() != "unknown_device") return wrong(nowhere);
    if (of_start.json().at("reserve_mib") != start_mib) return wrong(of_start);
    if (again.json().at("reserve_mib") != 5) return wrong(again);
    if (answer.status != 503 || !answer.headers.contains("retry-after")) return wrong(answer);
    return std::string();
  });
  auto daemon = tools::daemon::start(options);
  CHECK(asks.get().empty());
  REQUIRE(daemon);
  CHECK(comes_true([&] {
    const json now = http_connection((*daemon)->url()).ask("GET", "/v1/vram").json();
    return now.at("status") == "ok" && now.at("gpus").at(0).at("reserve_mib") == 5 && now.at("gpus").at(1).at("reserve_mib") == 5;
  }));
}

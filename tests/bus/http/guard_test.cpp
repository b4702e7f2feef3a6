#include "bus/http/guard.hpp"
#include <catch2/catch.hpp>

using namespace ebb;
using namespace ebb::bus::http;

namespace {

guard_rules rules_with(const std::string& key, std::vector<std::string> origins = {}, bool loopback = true) {
  return {.key = key, .trusted_origins = std::move(origins), .address = "127.0.0.1", .loopback = loopback};
}

request with(std::map<std::string, std::string> headers) {
  request out;
  out.method = "POST";
  out.headers = std::move(headers);
  return out;
}

// 0: it is let in.
int status_of(const outcome<void>& judged) { return judged ? 0 : judged.error().status; }

}  // namespace

TEST_CASE("on a loopback address only names of this machine are answered, so that no page elsewhere can take one") {
  const guard of(rules_with("", {"http://ebb.example:80"}));
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.8.9.1", "[::1]:80", "[::1]", "ebb.example"}) {
    CAPTURE(host);
    CHECK(status_of(of.judge_sender(with({{"host", host}}))) == 0);
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.0.7", "[::2]", "["}) {
    CAPTURE(host);
    CHECK(status_of(of.judge_sender(with({{"host", host}}))) == 403);
  }
  CHECK(status_of(guard(rules_with("secret", {}, false)).judge_sender(with({{"host", "any.example"}}))) == 0);
}

TEST_CASE("a page may ask if it is our own or of a trusted origin, and no other") {
  const guard of(rules_with("", {"http://127.0.0.1:8188", "https://comfy.example/"}));
  const auto judge = [&](const std::string& origin) { return status_of(of.judge_sender(with({{"host", "localhost:8080"}, {"origin", origin}}))); };
  CHECK(judge("http://localhost:8080") == 0);
  CHECK(judge("http://127.0.0.1:8188") == 0);
  CHECK(judge("https://comfy.example") == 0);
  for (const char* origin : {"http://127.0.0.1:8080", "http://localhost:8188", "http://localhost", "null", "https://127.0.0.1:8188", "http://evil.example", "http://127.0.0.1:8188.evil.example"}) {
    CAPTURE(origin);
    CHECK(judge(origin) == 403);
  }
}

TEST_CASE("a page from elsewhere may not ask without naming itself either, but may lead to our page") {
  const guard of(rules_with("", {"http://127.0.0.1:8188"}));
  const auto judge = [&](const std::string& path, std::map<std::string, std::string> headers) {
    request asked = with(std::move(headers));
    asked.method = "GET";
    asked.path = path;
    return status_of(of.judge_sender(asked));
  };
  for (const char* site : {"cross-site", "same-site"}) {
    CAPTURE(site);
    CHECK(judge("/v1/events", {{"host", "localhost:8080"}, {"sec-fetch-site", site}, {"sec-fetch-mode", "no-cors"}, {"sec-fetch-dest", "empty"}}) == 403);
    CHECK(judge("/v1/events", {{"host", "localhost:8080"}, {"sec-fetch-site", site}, {"sec-fetch-mode", "navigate"}, {"sec-fetch-dest", "document"}}) == 403);
    CHECK(judge("/", {{"host", "localhost:8080"}, {"sec-fetch-site", site}, {"sec-fetch-mode", "navigate"}, {"sec-fetch-dest", "iframe"}}) == 403);
    CHECK(judge("/", {{"host", "localhost:8080"}, {"sec-fetch-site", site}, {"sec-fetch-mode", "navigate"}, {"sec-fetch-dest", "document"}}) == 0);
    CHECK(judge("/v1/events", {{"host", "localhost:8080"}, {"sec-fetch-site", site}, {"sec-fetch-mode", "cors"}, {"origin", "http://127.0.0.1:8188"}}) == 0);
  }
  for (const char* site : {"same-origin", "none"}) CHECK(judge("/v1/events", {{"host", "localhost:8080"}, {"sec-fetch-site", site}}) == 0);
}

TEST_CASE("a key is taken from either header, and what is wrong with it does not show in the time") {
  const guard of(rules_with("correct-horse"));
  const auto judge = [&](std::map<std::string, std::string> headers) { return status_of(of.judge_key(with(std::move(headers)))); };
  CHECK(judge({{"authorization", "Bearer correct-horse"}}) == 0);
  CHECK(judge({{"authorization", "bearer correct-horse"}}) == 0);
  CHECK(judge({{"x-api-key", "correct-horse"}}) == 0);
  CHECK(judge({}) == 401);
  CHECK(judge({{"authorization", "correct-horse"}}) == 401);
  CHECK(judge({{"authorization", "Basic correct-horse"}}) == 401);
  for (const char* key : {"", "correct-hors", "correct-horsf", "correct-horsecorrect-horse", "Correct-horse"}) {
    CAPTURE(key);
    CHECK(judge({{"x-api-key", key}}) == 401);
    CHECK_FALSE(equal_in_constant_time("correct-horse", key));
  }
  CHECK(status_of(guard(rules_with("")).judge_key(with({}))) == 0);
}

TEST_CASE("a refused key is not repeated in the refusal") {
  const auto refused = guard(rules_with("correct-horse")).judge_key(with({{"x-api-key", "battery-staple"}}));
  REQUIRE(!refused);
  CHECK_THAT(body_of(refused.error()), !Catch::Contains("battery") && !Catch::Contains("horse"));
}

TEST_CASE("browsers are told what a trusted origin may send, and nothing about others") {
  const guard of(rules_with("", {"http://127.0.0.1:8188"}));
  const auto trusted = of.preflight(with({{"origin", "http://127.0.0.1:8188"}}), {"GET", "POST"});
  CHECK(trusted.status == 204);
  CHECK(std::find(trusted.headers.begin(), trusted.headers.end(), std::pair<std::string, std::string>("Access-Control-Allow-Methods", "GET, POST, OPTIONS")) != trusted.headers.end());
  CHECK(of.preflight(with({{"origin", "http://evil.example"}}), {"GET"}).headers.size() == 1);
  CHECK(of.headers_for(with({{"origin", "http://127.0.0.1:8188"}})).size() == 2);
  CHECK(of.headers_for(with({{"origin", "http://localhost"}})).empty());
}

#include "bus/http/routes.hpp"
#include <catch2/catch.hpp>

using namespace ebb::bus::http;

namespace {

routes three_routes() {
  const auto answer = [](const std::string& text) { return [text](const request&) { return response{.status = 200, .type = {}, .body = text, .headers = {}, .stream = {}}; }; };
  routes all;
  all.add("GET", "/a", answer("list"));
  all.add("GET", "/a/{}", answer("one"));
  all.add("DELETE", "/a/{}", answer("gone"));
  all.add("GET", "/", answer("page"));
  return all;
}

std::string answer_of(const routes& all, const std::string& method, const std::string& path) {
  const auto found = all.find(method, path);
  return found.route == nullptr ? "" : found.route->handler({}).body;
}

}  // namespace

TEST_CASE("a path finds its own route, and what stands for a part of it is handed on") {
  const routes all = three_routes();
  CHECK(answer_of(all, "GET", "/a") == "list");
  CHECK(answer_of(all, "HEAD", "/a") == "list");
  CHECK(answer_of(all, "GET", "/") == "page");
  CHECK(answer_of(all, "DELETE", "/a/7") == "gone");
  CHECK(all.find("GET", "/a/7").parts == std::vector<std::string>{"7"});
  CHECK(all.find("GET", "/a/{}").parts == std::vector<std::string>{"{}"});
}

TEST_CASE("another path finds nothing, and another method says which there are") {
  const routes all = three_routes();
  for (const char* path : {"", "a", "/b", "/a/", "/a/7/8", "//a", "/a//", "/A"}) {
    CAPTURE(path);
    CHECK(all.find("GET", path).route == nullptr);
    CHECK(all.find("GET", path).methods.empty());
  }
  CHECK(all.find("POST", "/a/7").methods == std::vector<std::string>{"GET", "DELETE"});
}

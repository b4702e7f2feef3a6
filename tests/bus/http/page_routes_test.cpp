// The page as it is served, and what must hold of its files whatever they show.
#include "bus/http/all_routes.hpp"
#include "bus/http/page_files.hpp"
#include "config/limits.hpp"
#include <catch2/catch.hpp>
#include <regex>
#include <set>

using namespace ebb;
using namespace ebb::bus::http;

namespace {

std::string header_of(const response& from, const std::string& name) {
  for (const auto& [each, value] : from.headers) {
    if (each == name) return value;
  }
  return {};
}

response asked_for(const std::string& path, const std::string& tag_known = {}) {
  static const routes all = [] {
    routes made;
    add_page_routes(made);
    return made;
  }();
  const auto found = all.find("GET", path);
  REQUIRE(found.route != nullptr);
  CHECK(found.route->access == access::open);
  request asked;
  asked.method = "GET";
  asked.path = path;
  if (!tag_known.empty()) asked.headers["if-none-match"] = tag_known;
  return found.route->handler(asked);
}

std::set<std::string> matches(std::string_view text, const std::string& pattern) {
  const std::regex wanted(pattern);
  std::set<std::string> all;
  for (std::cregex_iterator each(text.data(), text.data() + text.size(), wanted); each != std::cregex_iterator(); ++each) all.insert((*each)[1]);
  return all;
}

}  // namespace

TEST_CASE("the page is served at / with a policy that lets nothing in from elsewhere and no script or style of its own making") {
  const response page = asked_for("/");
  CHECK(page.status == 200);
  CHECK(page.type == "text/html; charset=utf-8");
  CHECK(page.body.find("<title>Ebb</title>") != std::string::npos);
  const std::string policy = header_of(page, "Content-Security-Policy");
  for (const char* part : {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
                           "form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"}) {
    CHECK_THAT(policy, Catch::Contains(part));
  }
  CHECK_THAT(policy, !Catch::Contains("unsafe") && !Catch::Contains("*") && !Catch::Contains("http"));
  for (const char* pattern : {"(<style)", "(\\sstyle\\s*=)", "(\\son[a-z]+\\s*=)", "(<script(?![^>]*src=)[^>]*>)", "(https?://)"}) CHECK(matches(page.body, pattern).empty());
}

TEST_CASE("every file that the page and its modules name is served, with its type, and no other is there") {
  std::set<std::string> named = matches(asked_for("/").body, "(?:src|href)=\"(/page/[^\"]+)\"");
  CHECK(named.size() >= 3);
  std::set<std::string> served;
  for (const embedded_file& each : page_files()) {
    for (const std::string& module : matches(each.bytes, "from \"\\./([^\"]+)\"")) named.insert("/page/" + module);
    if (each.name != "index.html") served.insert("/page/" + std::string(each.name));
  }
  served.insert("/page/limits.js");
  CHECK(named == served);
  for (const std::string& path : named) {
    const response file = asked_for(path);
    CHECK(file.status == 200);
    CHECK_FALSE(file.body.empty());
    if (path.ends_with(".js")) CHECK(file.type == "text/javascript; charset=utf-8");
  }
}

TEST_CASE("a file that the browser has already is not sent again, and one of another tag is") {
  const response first = asked_for("/page/main.js");
  const std::string tag = header_of(first, "ETag");
  CHECK(std::regex_match(tag, std::regex("\"[0-9a-f]{16}\"")));
  CHECK(header_of(first, "Cache-Control") == "no-cache");
  const response again = asked_for("/page/main.js", tag);
  CHECK(again.status == 304);
  CHECK(again.body.empty());
  CHECK(header_of(again, "ETag") == tag);
  CHECK(asked_for("/page/main.js", "\"0123456789abcdef\"").status == 200);
  CHECK(header_of(asked_for("/page/api.js"), "ETag") != tag);
}

TEST_CASE("no module makes markup out of text") {
  for (const embedded_file& each : page_files()) {
    INFO(each.name);
    CHECK(matches(each.bytes, "(innerHTML|outerHTML|insertAdjacentHTML|document\\.write|\\beval\\b|new Function|srcdoc)").empty());
  }
}

TEST_CASE("the page counts gaps in the classes that the daemon counts them in") {
  const std::string text = asked_for("/page/limits.js").body;
  std::string listed;
  for (const double each : limits::gap_bounds_ms) listed += (listed.empty() ? "" : ",") + std::to_string(each).substr(0, std::to_string(each).find('.') + 2);
  CHECK(text == "export const gap_bounds_ms = [" + listed + "];\n");
}

// bus/http/page_routes.cpp: the page at / and what it loads from /page/. Needs no key: the page asks for it, and shows nothing before.
//
// Nothing of the page comes from elsewhere and nothing in it is made up of text from strangers; the policy below has the browser hold it to that.
#include "bus/http/all_routes.hpp"
#include "bus/http/page_files.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include <nlohmann/json.hpp>
#include <utility>

namespace ebb::bus::http {
namespace {

constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const char* type_of(std::string_view name) {
  constexpr std::pair<std::string_view, const char*> types[] = {
      {".html", "text/html; charset=utf-8"}, {".css", "text/css; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"}, {".svg", "image/svg+xml"}};
  for (const auto& [end, type] : types) {
    if (name.ends_with(end)) return type;
  }
  EBB_ASSERT(!"a file of the page has a type that is listed");
  return "";
}

// A browser asks each time whether it has the newest; after an update of the daemon no module meets one of another version.
response serve(const request& asked, std::string_view bytes, const char* type, const std::string& tag) {
  response out{.status = 200, .type = type, .body = {}, .headers = {}, .stream = {}};
  out.headers = {{"ETag", tag},
                 {"Cache-Control", "no-cache"},
                 {"Content-Security-Policy", policy},
                 {"Referrer-Policy", "no-referrer"},
                 {"Cross-Origin-Opener-Policy", "same-origin"},
                 {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (asked.header("if-none-match").find(tag) == std::string_view::npos) {
    out.body = bytes;
    return out;
  }
  out.status = 304;
  out.type.clear();
  return out;
}

std::string in_tag(std::string_view text) { return '"' + std::string(text) + '"'; }

// What the page must know of config/limits.hpp.
std::string limits_module() { return "export const gap_bounds_ms = " + nlohmann::json(limits::gap_bounds_ms).dump() + ";\n"; }

}  // namespace

void add_page_routes(routes& into) {
  for (const embedded_file& each : page_files()) {
    const bool first = each.name == "index.html";
    into.add(
        "GET", first ? "/" : "/page/" + std::string(each.name),
        [&each, type = type_of(each.name), tag = in_tag(each.tag)](const request& asked) { return serve(asked, each.bytes, type, tag); }, access::open);
  }
  into.add(
      "GET", "/page/limits.js",
      [text = limits_module()](const request& asked) { return serve(asked, text, type_of(".js"), in_tag(std::to_string(std::hash<std::string>{}(text)))); }, access::open);
}

}  // namespace ebb::bus::http

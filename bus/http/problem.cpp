#include "bus/http/problem.hpp"
#include "config/limits.hpp"
#include <nlohmann/json.hpp>

namespace ebb::bus::http {
namespace {

int status_of(errc code, asked_for what) {
  switch (code) {
    case errc::unknown_lease:
    case errc::unknown_session: return 404;
    case errc::busy: return what == asked_for::answer ? 429 : 409;
    case errc::short_of:
    case errc::refused: return 409;
    case errc::not_loaded:
    case errc::out_of_memory:
    case errc::cancelled:
    case errc::timed_out:
    case errc::card_lost: return 503;
    case errc::too_large: return what == asked_for::answer ? 400 : 413;
    case errc::bad_value:
    case errc::missing_key:
    case errc::unknown_key:
    case errc::unknown_command:
    case errc::unknown_device:
    case errc::malformed: return 400;
    default: return 500;
  }
}

// "field `pid`: there is no such process" is about pid.
std::string field_of(std::string_view text) {
  constexpr std::string_view before = "field `";
  if (!text.starts_with(before)) return {};
  text.remove_prefix(before.size());
  const auto end = text.find('`');
  return end == std::string_view::npos ? std::string() : std::string(text.substr(0, end));
}

const char* type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

problem problem_of(const error& why, asked_for what) {
  problem out{status_of(why.code, what), std::string(to_string(why.code)), why.text, {}};
  if (why.code == errc::too_large && what == asked_for::answer) out.code = "context_length_exceeded";
  if (why.code == errc::unknown_device) out.param = "gpu";
  else out.param = field_of(why.text);
  return out;
}

problem with_field(problem why, std::string_view on_the_bus, std::string_view here) {
  const std::string name(on_the_bus);
  for (const std::string& mention : {'`' + name + '`', ' ' + name + '['}) {
    for (auto at = why.message.find(mention); at != std::string::npos; at = why.message.find(mention, at + here.size() + 2)) {
      why.message.replace(at + 1, name.size(), here);
    }
  }
  if (why.param == on_the_bus) why.param = here;
  return why;
}

std::string body_of(const problem& why) {
  using json = nlohmann::ordered_json;
  const json param = why.param.empty() ? json(nullptr) : json(why.param);
  const json body{{"error", {{"message", why.message}, {"type", type_of(why.status)}, {"param", param}, {"code", why.code}}}};
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

response response_of(const problem& why) {
  response out{.status = why.status, .type = "application/json", .body = body_of(why), .headers = {}, .stream = {}};
  if (why.status == 429 || why.status == 503) out.headers.emplace_back("Retry-After", std::to_string(limits::http_retry_after.count()));
  if (why.status == 401) out.headers.emplace_back("WWW-Authenticate", "Bearer");
  return out;
}

}  // namespace ebb::bus::http

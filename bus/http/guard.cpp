#include "bus/http/guard.hpp"
#include "bus/http/text.hpp"
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <charconv>

namespace ebb::bus::http {
namespace {

// Without the port: "[::1]:80" is "[::1]".
std::string_view host_alone(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') == std::string_view::npos ? host.size() : host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

std::string_view after_scheme(std::string_view origin) {
  const auto mark = origin.find("://");
  return mark == std::string_view::npos ? std::string_view{} : origin.substr(mark + 3);
}

bool is_loopback_name(std::string_view host) {
  return host == "localhost" || host == "[::1]" || (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

std::string_view media_type(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (content_type.ends_with(' ') || content_type.ends_with('\t')) content_type.remove_suffix(1);
  return content_type;
}

}  // namespace

bool equal_in_constant_time(std::string_view secret, std::string_view given) noexcept {
  unsigned differ = secret.size() == given.size() ? 0U : 1U;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char known = secret.empty() ? '\0' : secret[i % secret.size()];
    differ |= static_cast<unsigned>(static_cast<unsigned char>(known) ^ static_cast<unsigned char>(given[i]));
  }
  return differ == 0;
}

bool has_body(const request& asked) {
  const auto length = asked.header("content-length");
  return !asked.header("transfer-encoding").empty() || (length.find_first_not_of('0') != std::string_view::npos);
}

bool guard::is_trusted(std::string_view origin) const {
  return std::any_of(rules_.trusted_origins.begin(), rules_.trusted_origins.end(), [&](const std::string& each) {
    std::string_view known = each;
    if (known.ends_with('/')) known.remove_suffix(1);
    return lower(known) == lower(origin);
  });
}

bool guard::is_own_host(std::string_view host) const {
  const std::string name = lower(host_alone(host));
  if (is_loopback_name(name) || name == lower(rules_.address)) return true;
  return std::any_of(rules_.trusted_origins.begin(), rules_.trusted_origins.end(),
                     [&](const std::string& each) { return lower(host_alone(after_scheme(each))) == name; });
}

outcome<void> guard::judge_sender(const request& asked) const {
  const auto host = asked.header("host");
  if (rules_.loopback && !host.empty() && !is_own_host(host)) {
    return refuse(403, "foreign_host", "the Host " + in_quotes(host) + " is no name of this machine; ask for localhost, or add its origin to http.trusted_origins");
  }
  const auto origin = asked.header("origin");
  const bool same = !origin.empty() && !host.empty() && lower(after_scheme(origin)) == lower(host);
  if (!origin.empty() && !same && !is_trusted(origin)) {
    return refuse(403, "foreign_origin", "pages of " + in_quotes(origin) + " may not ask here; add it to http.trusted_origins if they should");
  }
  const auto site = asked.header("sec-fetch-site");
  const bool elsewhere = site == "cross-site" || site == "same-site";  // that is another port of this machine, too
  const bool visit = asked.path == "/" && asked.header("sec-fetch-mode") == "navigate" && asked.header("sec-fetch-dest") == "document";
  if (origin.empty() && elsewhere && !visit) {
    return refuse(403, "foreign_origin", "a page from elsewhere may not ask here without naming itself (Origin); add its origin to http.trusted_origins if it should");
  }
  return {};
}

bool guard::wants_body(const request_head& head) const {
  if (head.method != "POST" && head.method != "PUT" && head.method != "PATCH" && head.method != "DELETE") return false;
  request asked;
  asked.method = head.method;
  asked.path = head.target;
  asked.headers = head.headers;
  return judge_sender(asked) && judge_key(asked) && judge_body(asked);
}

outcome<void> guard::judge_key(const request& asked) const {
  if (rules_.key.empty()) return {};
  constexpr std::string_view bearer = "bearer ";
  std::string_view given = asked.header("x-api-key");
  const auto authorization = asked.header("authorization");
  if (lower(authorization.substr(0, bearer.size())) == bearer) given = authorization.substr(bearer.size());
  if (given.empty()) return refuse(401, "missing_api_key", "this service asks for a key: send \"Authorization: Bearer KEY\" or \"X-Api-Key: KEY\"");
  if (!equal_in_constant_time(rules_.key, given)) return refuse(401, "invalid_api_key", "the key is not the one of this service");
  return {};
}

outcome<void> guard::judge_body(const request& asked) {
  const auto encoding = asked.header("content-encoding");
  if (!encoding.empty() && lower(encoding) != "identity") return refuse(415, "unsupported_media_type", "a body must not be compressed; leave Content-Encoding out");
  const auto length = asked.header("content-length");
  if (!length.empty()) {
    std::uint64_t bytes = 0;
    const auto read = std::from_chars(length.data(), length.data() + length.size(), bytes);
    if (read.ec != std::errc{} || bytes > limits::http_body_bytes_max) {
      return refuse(413, "too_large", "the body has " + std::string(length.substr(0, 20)) + " bytes; at most " + std::to_string(limits::http_body_bytes_max) + " are taken");
    }
  }
  if (has_body(asked) && lower(media_type(asked.header("content-type"))) != "application/json") {
    return refuse(415, "unsupported_media_type", "a body must be JSON: send \"Content-Type: application/json\"");
  }
  return {};
}

std::vector<std::pair<std::string, std::string>> guard::headers_for(const request& asked) const {
  const auto origin = asked.header("origin");
  if (origin.empty() || !is_trusted(origin)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}};
}

response guard::preflight(const request& asked, const std::vector<std::string>& methods) const {
  std::string allowed;
  for (const std::string& each : methods) allowed += each + ", ";
  response out{.status = 204, .type = {}, .body = {}, .headers = {{"Allow", allowed + "OPTIONS"}}, .stream = {}};
  const auto origin = asked.header("origin");
  if (origin.empty() || !is_trusted(origin)) return out;
  out.headers.emplace_back("Access-Control-Allow-Methods", allowed + "OPTIONS");
  out.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key, Idempotency-Key");
  out.headers.emplace_back("Access-Control-Max-Age", "600");
  if (asked.header("access-control-request-private-network") == "true") out.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  return out;
}

}  // namespace ebb::bus::http

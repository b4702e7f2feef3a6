// bus/http/guard.hpp: who may ask what, judged by the headers alone, before a byte of the body is read.
//
//   Host      on a loopback address only names of this machine: a page elsewhere whose name was made to point here (DNS rebinding) has its own
//   Origin    a browser names the page that asks: its own origin, or one of http.trusted_origins. It says none in a GET that
//             needs no answer (an image, say), but then that it is from elsewhere (Sec-Fetch-Site)
//   key       "Authorization: Bearer KEY" or "X-Api-Key: KEY", compared in the same time whatever is wrong
//   body      JSON, uncompressed, of a length that is known or comes in chunks, and bounded
#pragma once
#include "bus/http/problem.hpp"
#include "bus/http/request_head.hpp"
#include "bus/http/routes.hpp"
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ebb::bus::http {

struct guard_rules {
  std::string key;                       // empty: none is asked for
  std::vector<std::string> trusted_origins;
  std::string address;                   // that is listened at, without the port
  bool loopback = true;
};

class guard {
 public:
  explicit guard(guard_rules rules) : rules_(std::move(rules)) {}

  // Of every request, before its route is looked for. Errors: 403.
  outcome<void> judge_sender(const request& asked) const;
  // Errors: 401.
  outcome<void> judge_key(const request& asked) const;
  // Of one that has a body, or may. Pre: the head was read by read_head(). Errors: 413, 415.
  static outcome<void> judge_body(const request& asked);

  // Whether a body is waited for: the request has all that can be judged without it.
  bool wants_body(const request_head& head) const;

  // What lets the browser hand the response to the page of a trusted origin; empty for others.
  std::vector<std::pair<std::string, std::string>> headers_for(const request& asked) const;
  // The answer to a browser that asks first whether a page may ask.
  response preflight(const request& asked, const std::vector<std::string>& methods) const;

 private:
  bool is_trusted(std::string_view origin) const;
  bool is_own_host(std::string_view host) const;

  guard_rules rules_;
};

// Whether both are the same; how long it takes says only how long `given` is.
bool equal_in_constant_time(std::string_view secret, std::string_view given) noexcept;

// Whether it has one, or says that it has.
bool has_body(const request& asked);

}  // namespace ebb::bus::http

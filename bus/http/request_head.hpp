// bus/http/request_head.hpp: the head of a request, read so strictly that nobody can see another request in the same bytes.
//
// A proxy before us, or cpp-httplib behind this, may take another of two lengths than we do, and then what is a body for one is the next
// request for the other. So where a body ends is decided here alone, and a head that leaves room for two readings is refused.
#pragma once
#include "bus/http/problem.hpp"
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ebb::bus::http {

struct request_head {
  std::string method;
  std::string target;                          // as it was sent
  bool old = false;                            // HTTP/1.0
  std::map<std::string, std::string> headers;  // names in lower case; of one that came twice the first, but for Connection
  bool closes = false;                         // no request comes after it
  bool chunked = false;
  std::uint64_t body_bytes = 0;                // of one that is not chunked; may be more than is taken
  bool waits = false;                          // its client sends the body when it is told to go on (Expect)

  bool has_body() const noexcept { return chunked || body_bytes > 0; }
};

// `text` is a head with its empty line. Errors: 400.
outcome<request_head> read_head(std::string_view text);

}  // namespace ebb::bus::http

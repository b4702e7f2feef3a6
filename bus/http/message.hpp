// bus/http/message.hpp: a request and its response as handlers see them.
#pragma once
#include "bus/http/peer.hpp"
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ebb::bus::http {

struct request {
  std::string method;                            // "GET"; a HEAD comes as one, and its body is left out later
  std::string path;                              // decoded, without what follows "?"
  std::map<std::string, std::string> headers;    // names in lower case; see request_head
  std::map<std::string, std::string> query;      // likewise
  std::vector<std::string> parts;                // what stood for each {} of the route
  std::string body;
  std::shared_ptr<http::peer> peer;              // whether the client is still there

  // Empty if there is none.
  std::string_view header(const std::string& lower_case_name) const {
    const auto found = headers.find(lower_case_name);
    return found == headers.end() ? std::string_view{} : std::string_view(found->second);
  }
};

// The body of a response that is not known when it begins.
class body_writer {
 public:
  virtual ~body_writer() = default;

  // False: the client has left, or has read nothing for limits::http_stall_timeout; nothing more is written.
  virtual bool write(std::string_view text) = 0;
};

struct response {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;

  // Instead of `body`: called once, when the headers have gone out, and returns at the end of the body.
  std::function<void(body_writer&)> stream;
};

using handler = std::function<response(const request&)>;

}  // namespace ebb::bus::http

// bus/http/routes.hpp: which handler answers which method and path.
#pragma once
#include "bus/http/message.hpp"
#include <string>
#include <string_view>
#include <vector>

namespace ebb::bus::http {

// Who may use a route, beside what the guard asks of all.
enum class access : std::uint8_t {
  open,      // without a key too: what is seen there helps nobody who should not see it
  with_key,  // if the settings have one
};

struct route {
  std::string method;
  std::vector<std::string> path;  // its parts; "{}" stands for any one of them
  http::handler handler;
  http::access access;
};

class routes {
 public:
  // `path` begins with "/". A "{}" between two slashes stands for anything but a slash. Asserts that there is no such route yet.
  void add(std::string_view method, std::string_view path, handler answer, access who = access::with_key);

  struct found {
    const http::route* route = nullptr;   // null: none
    std::vector<std::string> parts;       // what stood for each {}
    std::vector<std::string> methods;     // that the path has, when the route is null; none: there is no such path
  };
  // HEAD finds what GET does.
  found find(std::string_view method, std::string_view path) const;

 private:
  std::vector<http::route> all_;
};

}  // namespace ebb::bus::http
